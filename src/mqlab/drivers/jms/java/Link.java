package mqlab.jms;

/** What a role holds: a thread that works with its sessions, and how these end. */
abstract class Link {
    /** Closes what the link has. */
    interface Ending {
        void run() throws Exception;
    }

    final Worker worker;
    private final Ending ending;

    Link(Worker worker, Ending ending) {
        this.worker = worker;
        this.ending = ending;
    }

    /** After all that was ordered. The end of a session is answered after all that was sent on it. */
    public void close(long ticket) {
        hurry();
        worker.order(ticket, () -> {
            ending.run();
            return null;
        });
        worker.end();
    }

    /** Nothing that only waits must hold up the end. */
    void hurry() {
    }
}
