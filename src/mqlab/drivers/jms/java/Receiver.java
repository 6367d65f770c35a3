package mqlab.jms;

import java.io.PrintStream;
import java.io.PrintWriter;
import javax.jms.Message;
import javax.jms.MessageListener;

/**
 * Collects messages from the moment Python requests a batch until it takes the batch. At other times the listener
 * blocks the provider: JMS acknowledges a message when its listener returns, and only requested ones may be.
 */
public class Receiver extends Link implements MessageListener {
    private static final long NONE = -1;

    private final CompletionQueue completions;
    private final int maxRows;
    private Batch batch = new Batch();
    private long ticket = NONE;
    private boolean requested;
    private boolean closing;
    private Exception failed;

    Receiver(CompletionQueue completions, Worker worker, int maxRows, Closer closer) {
        super(worker, closer);
        this.completions = completions;
        this.maxRows = maxRows;
    }

    /** Completes when there is a batch to take. */
    public synchronized void requestBatch(long ticket) {
        this.ticket = ticket;
        requested = true;
        notifyAll();
        complete();
    }

    public synchronized byte[] take() {
        Batch taken = batch;
        batch = new Batch();
        requested = false;
        return taken.pack();
    }

    @Override
    public synchronized void onMessage(Message message) {
        try {
            while (!closing && !(requested && batch.rows() < maxRows && batch.accepts(message))) {
                wait();
            }
            if (!closing) {
                add(batch, message);
            }
        } catch (Exception error) {
            failed = error;
        }
        if (closing) {
            throw new Closing();
        }
        complete();
    }

    void add(Batch to, Message message) throws Exception {
        to.add(message);
    }

    @Override
    synchronized void stopWaiting() {
        closing = true;
        notifyAll();
    }

    /** Makes the provider not acknowledge. Some providers print what a listener throws, so it prints nothing. */
    private static final class Closing extends IllegalStateException {
        private static final long serialVersionUID = 1;

        Closing() {
            super("closed before this message was requested");
        }

        @Override
        public void printStackTrace(PrintStream to) {
        }

        @Override
        public void printStackTrace(PrintWriter to) {
        }
    }

    private void complete() {
        if (ticket != NONE && (failed != null || batch.rows() > 0)) {
            completions.complete(ticket, null, failed);
            ticket = NONE;
        }
    }
}
