package mqlab.jms;

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
    final Session session;
    final boolean persistent;

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
