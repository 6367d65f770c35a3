package mqlab.jms;

import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Hashtable;

import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.ConnectionFactory;
import javax.jms.MessageConsumer;
import javax.jms.MessageListener;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.naming.Context;
import javax.naming.spi.InitialContextFactory;

/**
 * A directory with a provider that does nothing: all that is sent is dropped, and one message is delivered again and
 * again. The name of its connection factory is the size of that message.
 */
public final class Null implements InitialContextFactory {
    /** Where the sequence number of a message of the lab is. */
    private static final int NUMBER_AT = 4;

    /** What an object does; null: nothing, and whatever stands for that is returned. */
    private interface Does {
        Object call(String method, Object[] arguments);
    }

    @Override
    public Context getInitialContext(Hashtable<?, ?> settings) {
        return made(Context.class, (method, arguments) ->
                method.equals("lookup") ? factory(Integer.parseInt((String) arguments[0])) : null);
    }

    private static ConnectionFactory factory(int size) {
        Connection connection = made(Connection.class, (method, arguments) ->
                method.equals("createSession") ? session(message(size)) : null);
        return made(ConnectionFactory.class, (method, arguments) ->
                method.equals("createConnection") ? connection : null);
    }

    private static Session session(BytesMessage message) {
        MessageProducer producer = made(MessageProducer.class, (method, arguments) -> null);
        return made(Session.class, (method, arguments) -> switch (method) {
            case "createBytesMessage" -> message;
            case "createProducer" -> producer;
            case "createConsumer" -> consumer(message);
            default -> null;
        });
    }

    private static MessageConsumer consumer(BytesMessage message) {
        return made(MessageConsumer.class, (method, arguments) -> switch (method) {
            case "receive", "receiveNoWait" -> message;
            case "setMessageListener" -> delivering(message, (MessageListener) arguments[0]);
            default -> null;
        });
    }

    private static Object delivering(BytesMessage message, MessageListener listener) {
        Thread thread = new Thread(() -> {
            try {
                while (true) {
                    listener.onMessage(message);
                }
            } catch (IllegalStateException closing) {
                // So a receiver tells that it wants no more.
            }
        }, "mqlab-jms-null");
        thread.setDaemon(true);
        thread.start();
        return null;
    }

    /** What is written to it is gone; who reads it gets a body with the next number. */
    private static BytesMessage message(int size) {
        ByteBuffer body = ByteBuffer.allocate(size).order(ByteOrder.LITTLE_ENDIAN);
        return made(BytesMessage.class, (method, arguments) -> switch (method) {
            case "getBodyLength" -> (long) size;
            case "readBytes" -> {
                System.arraycopy(body.array(), 0, arguments[0], 0, size);
                body.putLong(NUMBER_AT, body.getLong(NUMBER_AT) + 1);
                yield size;
            }
            default -> null;
        });
    }

    private static <T> T made(Class<T> type, Does does) {
        return type.cast(Proxy.newProxyInstance(
                Null.class.getClassLoader(), new Class<?>[] {type}, (self, method, arguments) -> {
                    if (method.getName().equals("equals")) {
                        return self == arguments[0];
                    }
                    Object done = does.call(method.getName(), arguments);
                    return done == null ? nothing(method.getReturnType()) : done;
                }));
    }

    private static Object nothing(Class<?> type) {
        if (type == boolean.class) {
            return false;
        }
        return type == int.class ? 0 : null;
    }
}
