package mqlab.jms;

import javax.jms.CompletionListener;
import javax.jms.Message;
import javax.jms.MessageProducer;
import javax.jms.Session;

/**
 * All messages of a batch are sent, then all confirmations waited for (JMS 2). Persistent messages that nobody waits
 * for are sent so, too: the plain `send` would wait for each of them.
 */
final class ByListener extends Outlet implements CompletionListener {
    private static final int MOST = 1000;

    private int open;
    private Exception failed;

    ByListener(Session session, boolean persistent) {
        super(session, persistent);
    }

    @Override
    void send(MessageProducer producer, Message message, boolean wait) throws Exception {
        if (!wait && !persistent) {
            producer.send(message);
            return;
        }
        synchronized (this) {
            until(MOST - 1);
            open++;
        }
        producer.send(message, this);
    }

    @Override
    synchronized void settle(boolean wait) throws Exception {
        if (wait) {
            until(0);
        }
    }

    private void until(int most) throws Exception {
        while (open > most && failed == null) {
            wait();
        }
        if (failed != null) {
            throw failed;
        }
    }

    @Override
    public synchronized void onCompletion(Message message) {
        open--;
        notifyAll();
    }

    @Override
    public synchronized void onException(Message message, Exception exception) {
        failed = exception;
        notifyAll();
    }
}
