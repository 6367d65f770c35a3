package mqlab.jms;

import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.Session;

/**
 * The receiver of a session that acknowledges or commits on demand. It cannot use a listener: a message that a listener
 * holds counts as received, and would be acknowledged with those that Python has.
 */
public final class AcknowledgingReceiver extends Link {
    private static final long POLL_MS = 50;

    private final Session session;
    private final MessageConsumer consumer;
    private final int maxRows;
    private final boolean acknowledges;
    private Message last;
    private volatile boolean stopped;

    AcknowledgingReceiver(Worker worker, Session session, MessageConsumer consumer, int maxRows, Closer closer)
            throws JMSException {
        super(worker, closer);
        this.session = session;
        this.consumer = consumer;
        this.maxRows = maxRows;
        acknowledges = !session.getTransacted();
    }

    /** The result is a packed Batch, or null if `stop` came before any message. */
    public void requestBatch(long ticket) {
        stopped = false;
        worker.submit(ticket, this::receive);
    }

    /** Ends the wait of `requestBatch`. */
    public void stop() {
        stopped = true;
    }

    public void commit(long ticket) {
        worker.submit(ticket, () -> {
            session.commit();
            return null;
        });
    }

    @Override
    void stopWaiting() {
        stopped = true;
    }

    private byte[] receive() throws JMSException {
        if (acknowledges && last != null) {
            last.acknowledge();
            last = null;
        }
        Message message = null;
        while (message == null) {
            if (stopped) {
                return null;
            }
            message = consumer.receive(POLL_MS);
        }
        Batch batch = new Batch();
        while (message != null) {
            batch.add(message);
            last = message;
            message = batch.rows() < maxRows ? consumer.receiveNoWait() : null;
        }
        return batch.pack();
    }
}
