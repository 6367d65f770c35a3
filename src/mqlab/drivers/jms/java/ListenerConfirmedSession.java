package mqlab.jms;

import javax.jms.CompletionListener;
import javax.jms.Message;
import javax.jms.MessageProducer;
import javax.jms.Session;

/**
 * Sends all messages of a batch, then waits for all their confirmations (JMS 2). Persistent messages use a listener
 * even if the role does not wait, because the plain `send` would wait for each of them.
 */
final class ListenerConfirmedSession extends ProducerSession implements CompletionListener {
    private static final int MAX_UNCONFIRMED = 1000;

    private int unconfirmed;
    private Exception failed;

    ListenerConfirmedSession(Session session, boolean persistent) {
        super(session, persistent);
    }

    @Override
    void send(MessageProducer producer, Message message, boolean wait) throws Exception {
        if (!wait && !persistent) {
            producer.send(message);
            return;
        }
        synchronized (this) {
            waitUnconfirmed(MAX_UNCONFIRMED - 1);
            unconfirmed++;
        }
        producer.send(message, this);
    }

    @Override
    synchronized void settle(boolean wait) throws Exception {
        if (wait) {
            waitUnconfirmed(0);
        }
    }

    private void waitUnconfirmed(int maxUnconfirmed) throws Exception {
        while (unconfirmed > maxUnconfirmed && failed == null) {
            wait();
        }
        if (failed != null) {
            throw failed;
        }
    }

    @Override
    public synchronized void onCompletion(Message message) {
        unconfirmed--;
        notifyAll();
    }

    @Override
    public synchronized void onException(Message message, Exception exception) {
        failed = exception;
        notifyAll();
    }
}
