package mqlab.jms;

import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.Session;

/**
 * A session that is told when messages are done, with one consumer. A listener could not do that: what it holds while
 * Python thinks counts as received, and would be acknowledged with what Python has.
 */
public final class Taker extends Link {
    private static final long LOOK_MS = 50;

    private final Session session;
    private final MessageConsumer consumer;
    private final int most;
    private final boolean saysDone;
    private Message last;
    private volatile boolean stopped;

    Taker(Worker worker, Session session, MessageConsumer consumer, int most, Ending ending) throws JMSException {
        super(worker, ending);
        this.session = session;
        this.consumer = consumer;
        this.most = most;
        saysDone = !session.getTransacted();
    }

    /** Results in a packed Batch, or in nothing if it was stopped before any came. */
    public void ask(long ticket) {
        stopped = false;
        worker.order(ticket, this::take);
    }

    /** Nobody waits for messages any more. */
    public void stop() {
        stopped = true;
    }

    public void commit(long ticket) {
        worker.order(ticket, () -> {
            session.commit();
            return null;
        });
    }

    @Override
    void hurry() {
        stopped = true;
    }

    private byte[] take() throws JMSException {
        if (saysDone && last != null) {
            last.acknowledge();
            last = null;
        }
        Message message = null;
        while (message == null) {
            if (stopped) {
                return null;
            }
            message = consumer.receive(LOOK_MS);
        }
        Batch batch = new Batch();
        while (message != null) {
            batch.add(message);
            last = message;
            message = batch.rows() < most ? consumer.receiveNoWait() : null;
        }
        return batch.packed();
    }
}
