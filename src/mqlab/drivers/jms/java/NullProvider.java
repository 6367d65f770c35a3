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
 * A JNDI context with a provider that drops all sent messages, and delivers one message again and again. The name of
 * its connection factory is the size of that message.
 */
public final class NullProvider implements InitialContextFactory {
    /** Offset of the sequence number in a message of the lab. */
    private static final int NUMBER_OFFSET = 4;
    private static final int FILLER_OFFSET = 12;

    /** The behaviour of a proxy. NullProvider stands for the default value of the method's type. */
    private interface Behaviour {
        Object call(String method, Object[] arguments);
    }

    @Override
    public Context getInitialContext(Hashtable<?, ?> settings) {
        return proxy(Context.class, (method, arguments) ->
                method.equals("lookup") ? factory(Integer.parseInt((String) arguments[0])) : null);
    }

    private static ConnectionFactory factory(int size) {
        Connection connection = proxy(Connection.class, (method, arguments) ->
                method.equals("createSession") ? session(message(size)) : null);
        return proxy(ConnectionFactory.class, (method, arguments) ->
                method.equals("createConnection") ? connection : null);
    }

    private static Session session(BytesMessage message) {
        MessageProducer producer = proxy(MessageProducer.class, (method, arguments) -> null);
        return proxy(Session.class, (method, arguments) -> switch (method) {
            case "createBytesMessage" -> message;
            case "createProducer" -> producer;
            case "createConsumer" -> consumer(message);
            default -> null;
        });
    }

    private static MessageConsumer consumer(BytesMessage message) {
        return proxy(MessageConsumer.class, (method, arguments) -> switch (method) {
            case "receive", "receiveNoWait" -> message;
            case "setMessageListener" -> deliver(message, (MessageListener) arguments[0]);
            default -> null;
        });
    }

    private static Object deliver(BytesMessage message, MessageListener listener) {
        Thread thread = new Thread(() -> {
            try {
                while (true) {
                    listener.onMessage(message);
                }
            } catch (IllegalStateException closing) {
                // The receiver closes.
            }
        }, "mqlab-jms-null");
        thread.setDaemon(true);
        thread.start();
        return null;
    }

    /** A message that ignores writes; each read returns a body with the next number and the lab's filler. */
    private static BytesMessage message(int size) {
        ByteBuffer body = ByteBuffer.allocate(size).order(ByteOrder.LITTLE_ENDIAN);
        for (int i = 0; i < size - FILLER_OFFSET; i++) {
            body.put(FILLER_OFFSET + i, (byte) (i + (i >> 8) + (i >> 16)));
        }
        return proxy(BytesMessage.class, (method, arguments) -> switch (method) {
            case "getBodyLength" -> (long) size;
            case "readBytes" -> {
                System.arraycopy(body.array(), 0, arguments[0], 0, size);
                body.putLong(NUMBER_OFFSET, body.getLong(NUMBER_OFFSET) + 1);
                yield size;
            }
            default -> null;
        });
    }

    private static <T> T proxy(Class<T> type, Behaviour behaviour) {
        return type.cast(Proxy.newProxyInstance(
                NullProvider.class.getClassLoader(), new Class<?>[] {type}, (self, method, arguments) -> {
                    if (method.getName().equals("equals")) {
                        return self == arguments[0];
                    }
                    Object result = behaviour.call(method.getName(), arguments);
                    return result == null ? defaultValue(method.getReturnType()) : result;
                }));
    }

    private static Object defaultValue(Class<?> type) {
        if (type == boolean.class) {
            return false;
        }
        return type == int.class ? 0 : null;
    }
}
