package mqlab.jms;

import java.io.FileOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Queues completions for Python. One byte in a pipe wakes Python's event loop for all completions since, so no Java
 * thread ever needs the interpreter.
 */
public final class CompletionQueue {
    private final ConcurrentLinkedQueue<Completion> waiting = new ConcurrentLinkedQueue<>();
    private final AtomicBoolean signalled = new AtomicBoolean();
    private final List<Completion> taken = new ArrayList<>();
    private final FileOutputStream pipe;

    /** The descriptor is the pipe's writing end in this process. */
    public CompletionQueue(int descriptor) throws IOException {
        pipe = new FileOutputStream("/dev/fd/" + descriptor);
    }

    void complete(long ticket, Object result, Throwable error) {
        waiting.add(new Completion(ticket, result, error));
        if (signalled.compareAndSet(false, true)) {
            try {
                pipe.write(1);
            } catch (IOException closed) {
                // Python has closed the connection.
            }
        }
    }

    /**
     * Returns the tickets of all completions since the last call. A negative one has a result or an error at its index.
     */
    public long[] take() {
        signalled.set(false);
        taken.clear();
        for (Completion completion = waiting.poll(); completion != null; completion = waiting.poll()) {
            taken.add(completion);
        }
        long[] tickets = new long[taken.size()];
        for (int i = 0; i < tickets.length; i++) {
            Completion completion = taken.get(i);
            tickets[i] = completion.result == null && completion.error == null ? completion.ticket : -completion.ticket;
        }
        return tickets;
    }

    public Object result(int at) {
        return taken.get(at).result;
    }

    /** The error at this index, or null. */
    public String error(int at) {
        return taken.get(at).error;
    }

    public void close() throws IOException {
        pipe.close();
    }
}
