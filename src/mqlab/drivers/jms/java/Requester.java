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
 * Sends one request at a time and receives its reply by a selector on a queue that requesters may share. If it keeps
 * its consumer, all replies to this requester have its own correlation id, and a property names the request.
 */
public final class Requester extends Link {
    static final String REQUEST = "mqlab_request";
    private static final long POLL_MS = 500;

    private final ProducerSession producerSession;
    private final MessageProducer producer;
    private final Destination replies;
    private final String ownId = UUID.randomUUID().toString();
    private final MessageConsumer standing;
    private volatile boolean closing;

    Requester(
            Worker worker, ProducerSession producerSession, Destination requests, Destination replies,
            boolean keepConsumer) throws JMSException {
        super(worker, producerSession::close);
        this.producerSession = producerSession;
        producer = producerSession.producer(requests);
        this.replies = replies;
        standing = keepConsumer ? consumer(ownId) : null;
    }

    /** The result is a packed Batch of one message. */
    public void request(long ticket, ByteBuffer data, int size, String id) {
        worker.submit(ticket, () -> {
            BytesMessage message = producerSession.message(data, 0, new byte[size]);
            message.setJMSReplyTo(replies);
            message.setJMSCorrelationID(standing == null ? id : ownId);
            message.setStringProperty(REQUEST, id);
            producer.send(message);
            return standing == null ? receiveOnce(id) : reply(standing, id);
        });
    }

    @Override
    void stopWaiting() {
        closing = true;
    }

    private byte[] receiveOnce(String id) throws JMSException {
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
            message = consumer.receive(POLL_MS);
        }
        String answered = message.getStringProperty(REQUEST);
        if (!id.equals(answered)) {
            throw new JMSException("the reply to " + id + " answers " + answered);
        }
        Batch batch = new Batch();
        batch.add(message);
        return batch.pack();
    }

    private MessageConsumer consumer(String id) throws JMSException {
        return producerSession.session.createConsumer(replies, "JMSCorrelationID = '" + id + "'");
    }
}
