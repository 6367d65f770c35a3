package mqlab.jms;

import java.util.concurrent.Callable;
import java.util.concurrent.LinkedBlockingQueue;

/** A thread that runs submitted calls one after the other, and queues their completions. */
final class Worker {
    private final LinkedBlockingQueue<Runnable> waiting = new LinkedBlockingQueue<>();
    private final CompletionQueue completions;
    private final Thread thread;
    private boolean stopped;

    Worker(CompletionQueue completions, String name) {
        this.completions = completions;
        thread = new Thread(this::run, name);
        thread.setDaemon(true);
        // Providers load their classes through it.
        thread.setContextClassLoader(Worker.class.getClassLoader());
        thread.start();
    }

    void submit(long ticket, Callable<?> work) {
        waiting.add(() -> {
            try {
                completions.complete(ticket, work.call(), null);
            } catch (Throwable error) {
                completions.complete(ticket, null, error);
            }
        });
    }

    boolean hasMore() {
        return !waiting.isEmpty();
    }

    /** Ends the thread after all submitted work. */
    void end() {
        waiting.add(() -> stopped = true);
    }

    /** Ends the thread at once, in the middle of a call. */
    void abandon() {
        end();
        thread.interrupt();
    }

    private void run() {
        while (!stopped) {
            try {
                waiting.take().run();
            } catch (InterruptedException interrupted) {
                stopped = true;
            }
        }
    }
}
