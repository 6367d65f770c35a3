package mqlab.jms;

import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;

import javax.jms.Connection;
import javax.jms.ConnectionFactory;
import javax.jms.Destination;
import javax.jms.ExceptionListener;
import javax.jms.JMSException;
import javax.jms.MessageConsumer;
import javax.jms.Session;
import javax.jms.Topic;

/** A connection, and a thread that opens its links. All their calls complete in one queue. */
public final class JmsConnection implements ExceptionListener {
    /** The ticket of the completion that reports a broken connection. */
    public static final long BROKEN = Long.MAX_VALUE;

    private final CompletionQueue completions;
    private final Map<String, String> options;
    private final Factories factories;
    private final List<Worker> workers = new CopyOnWriteArrayList<>();
    private final List<Link> links = new CopyOnWriteArrayList<>();
    private final List<Connection> connections = new CopyOnWriteArrayList<>();
    private final Worker worker;
    private ConnectionFactory factory;
    private Connection shared;
    private volatile boolean closing;

    public JmsConnection(CompletionQueue completions, Map<String, String> options) {
        this.completions = completions;
        this.options = options;
        factories = new Factories(options);
        worker = worker("connection");
    }

    public void connect(long ticket) {
        worker.submit(ticket, () -> {
            factory = factories.factory();
            shared = connect("");
            return null;
        });
    }

    /** The result is a Sender. With `waits` its session is one that can confirm batches. */
    public void sender(
            long ticket, boolean topic, String name, boolean persistent, boolean transacted, boolean waits) {
        worker.submit(ticket, () -> {
            ProducerSession producerSession = transacted
                    ? new ProducerSession(session(shared, Session.SESSION_TRANSACTED), persistent)
                    : producerSession(persistent, waits);
            Destination to = factories.destination(producerSession.session, topic, name);
            return register(new Sender(worker("sender"), producerSession, producerSession.producer(to)));
        });
    }

    /** The result is a Receiver, or an AcknowledgingReceiver for the modes client and transacted. */
    public void receiver(
            long ticket, boolean topic, String name, int maxRows, int mode, String selector, String durable) {
        worker.submit(ticket, () -> {
            Connection own = durable.isEmpty() ? shared : connect(durable);
            Session session = session(own, mode);
            Link.Closer closer = durable.isEmpty() ? session::close : () -> disconnect(own);
            Destination from = factories.destination(session, topic, name);
            String chosen = selector.isEmpty() ? null : selector;
            MessageConsumer consumer = durable.isEmpty()
                    ? session.createConsumer(from, chosen)
                    : session.createDurableSubscriber((Topic) from, durable, chosen, false);
            if (mode == Session.CLIENT_ACKNOWLEDGE || mode == Session.SESSION_TRANSACTED) {
                return register(new AcknowledgingReceiver(worker("receiver"), session, consumer, maxRows, closer));
            }
            Receiver receiver = new Receiver(completions, worker("receiver"), maxRows, closer);
            consumer.setMessageListener(receiver);
            return register(receiver);
        });
    }

    /** The result is a Requester, which keeps its consumer or opens one for each reply. */
    public void requester(long ticket, String name, String replies, boolean persistent, boolean keepConsumer) {
        worker.submit(ticket, () -> {
            Session session = session(shared, Session.AUTO_ACKNOWLEDGE);
            ProducerSession producerSession = new ProducerSession(session, persistent);
            Destination to = factories.destination(producerSession.session, false, name);
            Destination from = factories.destination(producerSession.session, false, replies);
            return register(new Requester(worker("requester"), producerSession, to, from, keepConsumer));
        });
    }

    /** The result is a Responder; it waits for the confirmation of persistent replies. */
    public void responder(long ticket, String name, int maxRows, boolean persistent) {
        worker.submit(ticket, () -> {
            Session requests = session(shared, Session.AUTO_ACKNOWLEDGE);
            ProducerSession replies = producerSession(persistent, persistent);
            MessageConsumer consumer = requests.createConsumer(factories.destination(requests, false, name));
            Link.Closer closer = () -> {
                requests.close();
                replies.close();
            };
            Responder responder = new Responder(completions, worker("responder"), maxRows, closer, replies);
            consumer.setMessageListener(responder);
            return register(responder);
        });
    }

    public void unsubscribe(long ticket, String durable) {
        worker.submit(ticket, () -> {
            Connection own = connect(durable);
            session(own, Session.AUTO_ACKNOWLEDGE).unsubscribe(durable);
            disconnect(own);
            return null;
        });
    }

    /** Closes in a new thread, because any other may be blocked by a system that does not answer. */
    public void close(long ticket) {
        closing = true;
        links.forEach(Link::stopWaiting);
        Worker closer = worker("closer");
        closer.submit(ticket, () -> {
            for (Connection connection : connections) {
                disconnect(connection);
            }
            Factories.close(factory);
            return null;
        });
        workers.forEach(Worker::end);
    }

    /** Ends all threads, even those that a system blocks. */
    public void abandon() {
        workers.forEach(Worker::abandon);
    }

    @Override
    public void onException(JMSException exception) {
        if (!closing) {
            completions.complete(BROKEN, null, exception);
        }
    }

    private Worker worker(String name) {
        Worker worker = new Worker(completions, "mqlab-jms-" + name);
        workers.add(worker);
        return worker;
    }

    private Link register(Link link) {
        links.add(link);
        return link;
    }

    /** Connects. A durable subscription belongs to a client id, so each has its own connection. */
    private Connection connect(String id) throws JMSException {
        String user = options.get("user");
        Connection connection = user == null
                ? factory.createConnection()
                : factory.createConnection(user, options.get("password"));
        connections.add(connection);
        if (!id.isEmpty()) {
            connection.setClientID(id);
        }
        connection.setExceptionListener(this);
        connection.start();
        return connection;
    }

    private void disconnect(Connection connection) throws JMSException {
        connections.remove(connection);
        connection.close();
    }

    private ProducerSession producerSession(boolean persistent, boolean waits) throws Exception {
        String confirm = options.get("confirm");
        if (confirm.equals("commit") && waits) {
            return new ProducerSession.CommitConfirmed(session(shared, Session.SESSION_TRANSACTED), persistent);
        }
        Session session = session(shared, Session.AUTO_ACKNOWLEDGE);
        if (!confirm.equals("listener")) {
            return new ProducerSession(session, persistent);
        }
        // By reflection: the class exists with JMS 2 only.
        Class<?> type = Class.forName("mqlab.jms.ListenerConfirmedSession");
        return (ProducerSession) type
                .getDeclaredConstructor(Session.class, boolean.class).newInstance(session, persistent);
    }

    private static Session session(Connection connection, int mode) throws JMSException {
        return connection.createSession(mode == Session.SESSION_TRANSACTED, mode);
    }
}
