package mqlab.jms;

import java.util.concurrent.Callable;
import java.util.concurrent.LinkedBlockingQueue;

/** A thread that does one piece of work after the other, and rings when each is done. */
final class Worker {
    private final LinkedBlockingQueue<Runnable> waiting = new LinkedBlockingQueue<>();
    private final Bell bell;
    private final Thread thread;
    private boolean ended;

    Worker(Bell bell, String name) {
        this.bell = bell;
        thread = new Thread(this::run, name);
        thread.setDaemon(true);
        // Providers look there for their own classes.
        thread.setContextClassLoader(Worker.class.getClassLoader());
        thread.start();
    }

    void order(long ticket, Callable<?> work) {
        waiting.add(() -> {
            try {
                bell.ring(ticket, work.call(), null);
            } catch (Throwable error) {
                bell.ring(ticket, null, error);
            }
        });
    }

    boolean hasMore() {
        return !waiting.isEmpty();
    }

    /** After all that is ordered. */
    void end() {
        waiting.add(() -> ended = true);
    }

    /** In the middle of what it does. */
    void abandon() {
        end();
        thread.interrupt();
    }

    private void run() {
        while (!ended) {
            try {
                waiting.take().run();
            } catch (InterruptedException interrupted) {
                ended = true;
            }
        }
    }
}
