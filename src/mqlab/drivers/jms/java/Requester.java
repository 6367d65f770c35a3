package mqlab.jms;

import java.nio.ByteBuffer;
import java.util.UUID;

import javax.jms.BytesMessage;
import javax.jms.Destination;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;

/**
 * One request at a time, its reply found by a selector on a queue that many may share. With a standing consumer, all
 * replies to this requester have its own correlation id, and say in a property which request they answer.
 */
public final class Requester extends Link {
    static final String REQUEST = "mqlab_request";
    private static final long LOOK_MS = 500;

    private final Outlet outlet;
    private final MessageProducer producer;
    private final Destination replies;
    private final String mine = UUID.randomUUID().toString();
    private final MessageConsumer standing;
    private volatile boolean closing;

    Requester(Worker worker, Outlet outlet, Destination requests, Destination replies, boolean stands)
            throws JMSException {
        super(worker, outlet::close);
        this.outlet = outlet;
        producer = outlet.producer(requests);
        this.replies = replies;
        standing = stands ? consumer(mine) : null;
    }

    /** Results in a packed Batch of one. */
    public void request(long ticket, ByteBuffer data, int size, String id) {
        worker.order(ticket, () -> {
            BytesMessage message = outlet.message(data, 0, new byte[size]);
            message.setJMSReplyTo(replies);
            message.setJMSCorrelationID(standing == null ? id : mine);
            message.setStringProperty(REQUEST, id);
            producer.send(message);
            return standing == null ? once(id) : reply(standing, id);
        });
    }

    @Override
    void hurry() {
        closing = true;
    }

    private byte[] once(String id) throws JMSException {
        MessageConsumer consumer = consumer(id);
        try {
            return reply(consumer, id);
        } finally {
            consumer.close();
        }
    }

    private byte[] reply(MessageConsumer consumer, String id) throws JMSException {
        Message message = null;
        while (message == null) {
            if (closing) {
                throw new JMSException("closed before the reply to " + id + " came");
            }
            message = consumer.receive(LOOK_MS);
        }
        String answered = message.getStringProperty(REQUEST);
        if (!id.equals(answered)) {
            throw new JMSException("the reply to " + id + " is one to " + answered);
        }
        Batch batch = new Batch();
        batch.add(message);
        return batch.packed();
    }

    private MessageConsumer consumer(String id) throws JMSException {
        return outlet.session.createConsumer(replies, "JMSCorrelationID = '" + id + "'");
    }
}
