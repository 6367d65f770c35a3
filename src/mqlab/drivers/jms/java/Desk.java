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

/** A connection, and a thread that opens what is on it. All that it and its links do rings one bell. */
public final class Desk implements ExceptionListener {
    /** The ticket with which a connection rings that broke. */
    public static final long BROKEN = Long.MAX_VALUE;

    private final Bell bell;
    private final Map<String, String> options;
    private final Factories factories;
    private final List<Worker> workers = new CopyOnWriteArrayList<>();
    private final List<Link> links = new CopyOnWriteArrayList<>();
    private final List<Connection> connections = new CopyOnWriteArrayList<>();
    private final Worker worker;
    private ConnectionFactory factory;
    private Connection shared;
    private volatile boolean closing;

    public Desk(Bell bell, Map<String, String> options) {
        this.bell = bell;
        this.options = options;
        factories = new Factories(options);
        worker = worker("desk");
    }

    public void connect(long ticket) {
        worker.order(ticket, () -> {
            factory = factories.factory();
            shared = connected("");
            return null;
        });
    }

    /** Results in a Sender. One that will wait for confirmations may need another session than one that will not. */
    public void sender(
            long ticket, boolean topic, String name, boolean persistent, boolean transacted, boolean waits) {
        worker.order(ticket, () -> {
            Outlet outlet = transacted
                    ? new Outlet(session(shared, Session.SESSION_TRANSACTED), persistent)
                    : outlet(persistent, waits);
            Destination to = factories.destination(outlet.session, topic, name);
            return kept(new Sender(worker("sender"), outlet, outlet.producer(to)));
        });
    }

    /** Results in a Receiver, or in a Taker where the session is told when messages are done. */
    public void receiver(long ticket, boolean topic, String name, int most, int mode, String selector, String durable) {
        worker.order(ticket, () -> {
            Connection own = durable.isEmpty() ? shared : connected(durable);
            Session session = session(own, mode);
            Link.Ending ending = durable.isEmpty() ? session::close : () -> disconnected(own);
            Destination from = factories.destination(session, topic, name);
            String chosen = selector.isEmpty() ? null : selector;
            MessageConsumer consumer = durable.isEmpty()
                    ? session.createConsumer(from, chosen)
                    : session.createDurableSubscriber((Topic) from, durable, chosen, false);
            if (mode == Session.CLIENT_ACKNOWLEDGE || mode == Session.SESSION_TRANSACTED) {
                return kept(new Taker(worker("taker"), session, consumer, most, ending));
            }
            Receiver receiver = new Receiver(bell, worker("receiver"), most, ending);
            consumer.setMessageListener(receiver);
            return kept(receiver);
        });
    }

    /** Results in a Requester, whose consumer stands or is a new one for each reply. */
    public void requester(long ticket, String name, String replies, boolean persistent, boolean stands) {
        worker.order(ticket, () -> {
            Outlet outlet = new Outlet(session(shared, Session.AUTO_ACKNOWLEDGE), persistent);
            Destination to = factories.destination(outlet.session, false, name);
            Destination from = factories.destination(outlet.session, false, replies);
            return kept(new Requester(worker("requester"), outlet, to, from, stands));
        });
    }

    /** Results in a Responder; persistent replies are waited for. */
    public void responder(long ticket, String name, int most, boolean persistent) {
        worker.order(ticket, () -> {
            Session requests = session(shared, Session.AUTO_ACKNOWLEDGE);
            Outlet replies = outlet(persistent, persistent);
            MessageConsumer consumer = requests.createConsumer(factories.destination(requests, false, name));
            Link.Ending ending = () -> {
                requests.close();
                replies.close();
            };
            Responder responder = new Responder(bell, worker("responder"), most, ending, replies);
            consumer.setMessageListener(responder);
            return kept(responder);
        });
    }

    public void unsubscribe(long ticket, String durable) {
        worker.order(ticket, () -> {
            Connection own = connected(durable);
            session(own, Session.AUTO_ACKNOWLEDGE).unsubscribe(durable);
            disconnected(own);
            return null;
        });
    }

    /** In a thread of its own: any other may be waiting for a system that does not answer. */
    public void close(long ticket) {
        closing = true;
        links.forEach(Link::hurry);
        Worker closer = worker("closer");
        closer.order(ticket, () -> {
            for (Connection one : connections) {
                disconnected(one);
            }
            Factories.close(factory);
            return null;
        });
        workers.forEach(Worker::end);
    }

    /** Let go of a system that does not answer. */
    public void abandon() {
        workers.forEach(Worker::abandon);
    }

    @Override
    public void onException(JMSException exception) {
        if (!closing) {
            bell.ring(BROKEN, null, exception);
        }
    }

    private Worker worker(String name) {
        Worker made = new Worker(bell, "mqlab-jms-" + name);
        workers.add(made);
        return made;
    }

    private Link kept(Link link) {
        links.add(link);
        return link;
    }

    /** A durable subscription belongs to a client with an id, so each has a connection of its own with its name. */
    private Connection connected(String id) throws JMSException {
        String user = options.get("user");
        Connection made = user == null
                ? factory.createConnection()
                : factory.createConnection(user, options.get("password"));
        connections.add(made);
        if (!id.isEmpty()) {
            made.setClientID(id);
        }
        made.setExceptionListener(this);
        made.start();
        return made;
    }

    private void disconnected(Connection one) throws JMSException {
        connections.remove(one);
        one.close();
    }

    private Outlet outlet(boolean persistent, boolean waits) throws Exception {
        String confirm = options.get("confirm");
        if (confirm.equals("commit") && waits) {
            return new Outlet.ByCommit(session(shared, Session.SESSION_TRANSACTED), persistent);
        }
        Session session = session(shared, Session.AUTO_ACKNOWLEDGE);
        if (!confirm.equals("listener")) {
            return new Outlet(session, persistent);
        }
        // Of JMS 2: there may be no such class.
        Class<?> second = Class.forName("mqlab.jms.ByListener");
        return (Outlet) second.getDeclaredConstructor(Session.class, boolean.class).newInstance(session, persistent);
    }

    private static Session session(Connection connection, int mode) throws JMSException {
        return connection.createSession(mode == Session.SESSION_TRANSACTED, mode);
    }
}
