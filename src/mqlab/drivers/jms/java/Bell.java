package mqlab.jms;

import java.io.FileOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Tells Python what is done. One byte in a pipe wakes its event loop, however much is done until it looks: no thread
 * of Java ever needs the interpreter.
 */
public final class Bell {
    private final ConcurrentLinkedQueue<Done> waiting = new ConcurrentLinkedQueue<>();
    private final AtomicBoolean rung = new AtomicBoolean();
    private final List<Done> taken = new ArrayList<>();
    private final FileOutputStream pipe;

    /** With the number of the pipe's writing end, in this process. */
    public Bell(int descriptor) throws IOException {
        pipe = new FileOutputStream("/dev/fd/" + descriptor);
    }

    void ring(long ticket, Object result, Throwable error) {
        waiting.add(new Done(ticket, result, error));
        if (rung.compareAndSet(false, true)) {
            try {
                pipe.write(1);
            } catch (IOException closed) {
                // Nobody listens any more.
            }
        }
    }

    /**
     * The tickets of all that was done since it was last asked; what comes after rings again. Negative: there is a
     * result, or an error, to be asked for by its place here.
     */
    public long[] take() {
        rung.set(false);
        taken.clear();
        for (Done one = waiting.poll(); one != null; one = waiting.poll()) {
            taken.add(one);
        }
        long[] tickets = new long[taken.size()];
        for (int i = 0; i < tickets.length; i++) {
            Done one = taken.get(i);
            tickets[i] = one.result == null && one.error == null ? one.ticket : -one.ticket;
        }
        return tickets;
    }

    public Object result(int at) {
        return taken.get(at).result;
    }

    /** None: null. */
    public String error(int at) {
        return taken.get(at).error;
    }

    public void close() throws IOException {
        pipe.close();
    }
}
