package mqlab.jms;

import java.io.PrintStream;
import java.io.PrintWriter;
import javax.jms.Message;
import javax.jms.MessageListener;

/**
 * Gathers messages while Python waits for some, and until it comes to take them. In between the provider is held: JMS
 * acknowledges a message when its listener returns, and none must be acknowledged before it was asked for.
 */
public class Receiver extends Link implements MessageListener {
    private static final long NOBODY = -1;

    private final Bell bell;
    private final int most;
    private Batch batch = new Batch();
    private long asked = NOBODY;
    private boolean open;
    private boolean closing;
    private Exception failed;

    Receiver(Bell bell, Worker worker, int most, Ending ending) {
        super(worker, ending);
        this.bell = bell;
        this.most = most;
    }

    /** Rings when there is something to take. */
    public synchronized void ask(long ticket) {
        asked = ticket;
        open = true;
        notifyAll();
        answer();
    }

    public synchronized byte[] take() {
        Batch taken = batch;
        batch = new Batch();
        open = false;
        return taken.packed();
    }

    @Override
    public synchronized void onMessage(Message message) {
        try {
            while (!closing && !(open && batch.rows() < most && batch.goesWith(message))) {
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
        answer();
    }

    void add(Batch to, Message message) throws Exception {
        to.add(message);
    }

    @Override
    synchronized void hurry() {
        closing = true;
        notifyAll();
    }

    /** Tells the provider not to acknowledge. Some print what a listener throws: there is nothing to print. */
    private static final class Closing extends IllegalStateException {
        private static final long serialVersionUID = 1;

        Closing() {
            super("closed before this message was asked for");
        }

        @Override
        public void printStackTrace(PrintStream to) {
        }

        @Override
        public void printStackTrace(PrintWriter to) {
        }
    }

    private void answer() {
        if (asked != NOBODY && (failed != null || batch.rows() > 0)) {
            bell.ring(asked, null, failed);
            asked = NOBODY;
        }
    }
}
