package mqlab.jms;

import java.lang.reflect.Array;
import java.lang.reflect.Method;
import java.util.HashMap;
import java.util.Hashtable;
import java.util.Map;

import javax.jms.ConnectionFactory;
import javax.jms.Destination;
import javax.jms.JMSException;
import javax.jms.Session;
import javax.naming.InitialContext;
import javax.naming.NamingException;

/** Creates a provider's connection factory and destinations: by class and settings, or by lookup in JNDI. */
final class Factories {
    private static final String HORNETQ = "org.hornetq.jms.client.HornetQJMSConnectionFactory";
    private static final int BUFFER_SIZE = 1 << 20;

    private final Map<String, String> options;

    Factories(Map<String, String> options) {
        this.options = options;
    }

    ConnectionFactory factory() throws Exception {
        if (options.containsKey("lookup")) {
            return (ConnectionFactory) context().lookup(options.get("lookup"));
        }
        Class<?> type = Class.forName(options.get("factory"));
        Object factory = type.getName().equals(HORNETQ) ? hornetq(type) : create(type, options.get("url"));
        for (Map.Entry<String, String> option : options.entrySet()) {
            if (option.getKey().startsWith("set.")) {
                set(factory, option.getKey().substring(4), option.getValue());
            }
        }
        return (ConnectionFactory) factory;
    }

    Destination destination(Session session, boolean topic, String name) throws JMSException, NamingException {
        if ("jndi".equals(options.get("destinations"))) {
            return (Destination) context().lookup(name);
        }
        return topic ? session.createTopic(name) : session.createQueue(name);
    }

    /** Closes the factory if it has a method for that: some hold threads or sockets, and JMS has no such method. */
    static void close(ConnectionFactory factory) throws ReflectiveOperationException {
        if (factory != null) {
            try {
                factory.getClass().getMethod("close").invoke(factory);
            } catch (NoSuchMethodException none) {
                // Nothing to close.
            }
        }
    }

    private InitialContext context() throws NamingException {
        Hashtable<String, String> settings = new Hashtable<>();
        for (Map.Entry<String, String> option : options.entrySet()) {
            if (option.getKey().startsWith("jndi.")) {
                settings.put(option.getKey().substring(5), option.getValue());
            }
        }
        return new InitialContext(settings);
    }

    private static Object create(Class<?> type, String url) throws ReflectiveOperationException {
        if (url == null || url.isEmpty()) {
            return type.getConstructor().newInstance();
        }
        return type.getConstructor(String.class).newInstance(url);
    }

    /** HornetQ's factory takes connectors, not a URL. */
    private Object hornetq(Class<?> type) throws ReflectiveOperationException {
        Map<String, Object> parameters = new HashMap<>();
        parameters.put("host", options.get("host"));
        parameters.put("port", options.get("port"));
        // The default of 32 KiB is less than one segment of the loopback, so each send would wait for a TCP timer.
        parameters.put("tcp-send-buffer-size", BUFFER_SIZE);
        parameters.put("tcp-receive-buffer-size", BUFFER_SIZE);
        Class<?> transport = Class.forName("org.hornetq.api.core.TransportConfiguration");
        String netty = "org.hornetq.core.remoting.impl.netty.NettyConnectorFactory";
        Object connectors = Array.newInstance(transport, 1);
        Array.set(connectors, 0, transport.getConstructor(String.class, Map.class).newInstance(netty, parameters));
        return type.getConstructor(boolean.class, connectors.getClass()).newInstance(false, connectors);
    }

    /** Calls setNAME(value), or setProperty(NAME, value) if there is no such method. */
    private static void set(Object factory, String name, String value) throws ReflectiveOperationException {
        String setter = "set" + Character.toUpperCase(name.charAt(0)) + name.substring(1);
        for (Method method : factory.getClass().getMethods()) {
            if (method.getName().equals(setter) && method.getParameterCount() == 1) {
                Object converted = convert(value, method.getParameterTypes()[0]);
                if (converted != null) {
                    method.invoke(factory, converted);
                    return;
                }
            }
        }
        try {
            factory.getClass().getMethod("setProperty", String.class, String.class).invoke(factory, name, value);
        } catch (NoSuchMethodException none) {
            throw new NoSuchMethodException(factory.getClass().getName() + " has no setting " + name);
        }
    }

    private static Object convert(String value, Class<?> type) {
        if (type == String.class) {
            return value;
        }
        if (type == int.class || type == Integer.class) {
            return Integer.valueOf(value);
        }
        if (type == long.class || type == Long.class) {
            return Long.valueOf(value);
        }
        return type == boolean.class || type == Boolean.class ? Boolean.valueOf(value) : null;
    }
}
