package mqlab.jms;

import java.lang.reflect.Method;
import java.nio.ByteBuffer;

import javax.jms.BytesMessage;
import javax.jms.DeliveryMode;
import javax.jms.Destination;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageProducer;
import javax.jms.Session;

/** A session to send with. This kind takes the return of `send` for the confirmation, as JMS says. */
class Outlet {
    private static final int TIMEOUT_MILLISECONDS = 300_000;

    final Session session;
    final boolean persistent;
    /** Of ActiveMQ's producers: a send that has a time limit is answered, whatever is sent. Others: null. */
    private Method timeout;

    Outlet(Session session, boolean persistent) {
        this.session = session;
        this.persistent = persistent;
    }

    /** Without what nobody here reads: ids and times that the provider would make for each message. */
    MessageProducer producer(Destination destination) throws JMSException {
        MessageProducer made = session.createProducer(destination);
        made.setDeliveryMode(persistent ? DeliveryMode.PERSISTENT : DeliveryMode.NON_PERSISTENT);
        made.setDisableMessageID(true);
        made.setDisableMessageTimestamp(true);
        try {
            timeout = made.getClass().getMethod("setSendTimeout", int.class);
        } catch (NoSuchMethodException none) {
            timeout = null;
        }
        return made;
    }

    /** One whose body lies there; `body` is of its size, and used on the way. */
    BytesMessage message(ByteBuffer data, int begin, byte[] body) throws JMSException {
        BytesMessage message = session.createBytesMessage();
        data.get(begin, body);
        message.writeBytes(body);
        return message;
    }

    void send(MessageProducer producer, Message message, boolean wait) throws Exception {
        producer.send(message);
    }

    /** Returns when the system has taken this one, and so all before it; of a provider that cannot tell, at once. */
    void mark(MessageProducer producer, Message message) throws Exception {
        if (timeout == null) {
            producer.send(message);
            return;
        }
        timeout.invoke(producer, TIMEOUT_MILLISECONDS);
        producer.send(message);
        timeout.invoke(producer, 0);
    }

    /** After a batch, and before the end. With `wait`, returns when all that was sent is confirmed. */
    void settle(boolean wait) throws Exception {
    }

    void close() throws Exception {
        settle(true);
        session.close();
    }

    /** By a commit for each batch. */
    static final class ByCommit extends Outlet {
        ByCommit(Session session, boolean persistent) {
            super(session, persistent);
        }

        @Override
        void settle(boolean wait) throws JMSException {
            session.commit();
        }
    }
}
