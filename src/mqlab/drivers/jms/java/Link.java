package mqlab.jms;

/** A link of a role: the thread that works with its session, and the code that closes it. */
abstract class Link {
    /** Closes the sessions of the link. */
    interface Closer {
        void run() throws Exception;
    }

    final Worker worker;
    private final Closer closer;

    Link(Worker worker, Closer closer) {
        this.worker = worker;
        this.closer = closer;
    }

    /** Closes after all submitted work. The provider closes a session after all messages that were sent on it. */
    public void close(long ticket) {
        stopWaiting();
        worker.submit(ticket, () -> {
            closer.run();
            return null;
        });
        worker.end();
    }

    /** Ends every wait of this link, so that it can close. */
    void stopWaiting() {
    }
}
