package mqlab.jms;

import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

import javax.jms.BytesMessage;
import javax.jms.DeliveryMode;
import javax.jms.Destination;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageProducer;
import javax.jms.Session;

/** A session that sends. In this class the return of `send` is the confirmation, as JMS defines it. */
class ProducerSession {
    private static final int TIMEOUT_MS = 300_000;

    final Session session;
    final boolean persistent;
    private final List<MessageProducer> producers = new ArrayList<>();
    /** ActiveMQ confirms every send that has a sendTimeout; this is its setter. Null for other providers. */
    private Method sendTimeout;

    ProducerSession(Session session, boolean persistent) {
        this.session = session;
        this.persistent = persistent;
    }

    /** A producer with message ids and timestamps, as JMS has them by default. */
    MessageProducer producer(Destination destination) throws JMSException {
        MessageProducer producer = session.createProducer(destination);
        producers.add(producer);
        producer.setDeliveryMode(persistent ? DeliveryMode.PERSISTENT : DeliveryMode.NON_PERSISTENT);
        try {
            sendTimeout = producer.getClass().getMethod("setSendTimeout", int.class);
        } catch (NoSuchMethodException none) {
            sendTimeout = null;
        }
        return producer;
    }

    /** A message with the bytes of `data` from `begin` on; `body` is a buffer of its size. */
    BytesMessage message(ByteBuffer data, int begin, byte[] body) throws JMSException {
        BytesMessage message = session.createBytesMessage();
        data.get(begin, body);
        message.writeBytes(body);
        return message;
    }

    void send(MessageProducer producer, Message message, boolean wait) throws Exception {
        producer.send(message);
    }

    /** Sends a message and returns when the broker has accepted it, or at once if the provider cannot tell. */
    void sendAccepted(MessageProducer producer, Message message) throws Exception {
        if (sendTimeout == null) {
            producer.send(message);
            return;
        }
        sendTimeout.invoke(producer, TIMEOUT_MS);
        producer.send(message);
        sendTimeout.invoke(producer, 0);
    }

    /** Ends a batch. With `wait`, returns when all messages are confirmed. */
    void settle(boolean wait) throws Exception {
    }

    void close() throws Exception {
        settle(true);
        // Qpid JMS ends a session at once. A producer waits for what the broker has not answered yet.
        for (MessageProducer producer : producers) {
            producer.close();
        }
        session.close();
    }

    /** Confirms each batch by a commit. */
    static final class CommitConfirmed extends ProducerSession {
        CommitConfirmed(Session session, boolean persistent) {
            super(session, persistent);
        }

        @Override
        void settle(boolean wait) throws JMSException {
            session.commit();
        }
    }
}
