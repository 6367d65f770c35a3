import java.util.ArrayList;
import java.util.Collections;
import java.util.Enumeration;
import java.util.List;
import java.util.Objects;
import javax.jms.*;
import org.apache.qpid.jms.JmsConnectionFactory;

/** A JMS 2.0 program on Qpid JMS. It prints a line for each part that behaves as JMS says, and fails at the first that does not. */
public class QpidJmsProgram {
    private static final long WAIT = 20000;
    private static JmsConnectionFactory factory;

    private interface Part { void run() throws Exception; }

    public static void main(String[] arguments) throws Exception {
        factory = new JmsConnectionFactory(arguments[0]);
        part("bodies", QpidJmsProgram::bodies);
        part("headers and properties", QpidJmsProgram::headers);
        part("selector", QpidJmsProgram::selector);
        part("invalid selector", QpidJmsProgram::invalidSelector);
        part("request and reply", QpidJmsProgram::requestReply);
        part("temporary topic", QpidJmsProgram::temporaryTopic);
        part("transaction", QpidJmsProgram::transaction);
        part("recover", QpidJmsProgram::recover);
        part("browser", QpidJmsProgram::browser);
        part("expiry", QpidJmsProgram::expiry);
        part("delivery delay", QpidJmsProgram::deliveryDelay);
        part("priority", QpidJmsProgram::priority);
        part("receive without waiting", QpidJmsProgram::receiveNoWait);
        part("durable subscription", QpidJmsProgram::durable);
        part("shared subscription", QpidJmsProgram::shared);
        part("shared durable subscription", QpidJmsProgram::sharedDurable);
        part("no local", QpidJmsProgram::noLocal);
        part("client id", QpidJmsProgram::clientId);
        part("completion listener", QpidJmsProgram::completionListener);
        part("anonymous producer", QpidJmsProgram::anonymousProducer);
    }

    private static void part(String name, Part part) throws Exception {
        part.run();
        System.out.println("ok " + name);
    }

    private static void check(boolean holds, String claim) {
        if (!holds) throw new AssertionError(claim);
    }

    private static void equal(Object actual, Object expected) {
        check(Objects.equals(actual, expected), actual + " is not " + expected);
    }

    private static JMSContext open(int mode) {
        return factory.createContext(mode);
    }

    private static JMSContext open() {
        return open(JMSContext.AUTO_ACKNOWLEDGE);
    }

    private static void bodies() throws Exception {
        try (JMSContext context = open()) {
            Queue queue = context.createQueue("bodies");
            JMSProducer producer = context.createProducer();
            producer.send(queue, "text");
            producer.send(queue, (String) null);
            producer.send(queue, new byte[] {1, 2, 3});
            MapMessage map = context.createMapMessage();
            map.setInt("a", 7);
            map.setString("b", "x");
            producer.send(queue, map);
            StreamMessage stream = context.createStreamMessage();
            stream.writeLong(5);
            stream.writeString("s");
            producer.send(queue, stream);
            producer.send(queue, (java.io.Serializable) new ArrayList<>(List.of(1, 2)));
            producer.send(queue, new byte[3_000_000]);
            JMSConsumer consumer = context.createConsumer(queue);
            equal(((TextMessage) consumer.receive(WAIT)).getText(), "text");
            equal(((TextMessage) consumer.receive(WAIT)).getText(), null);
            BytesMessage bytes = (BytesMessage) consumer.receive(WAIT);
            equal(bytes.getBodyLength(), 3L);
            MapMessage gotMap = (MapMessage) consumer.receive(WAIT);
            equal(gotMap.getInt("a"), 7);
            equal(gotMap.getString("b"), "x");
            StreamMessage gotStream = (StreamMessage) consumer.receive(WAIT);
            equal(gotStream.readLong(), 5L);
            equal(gotStream.readString(), "s");
            equal(((ObjectMessage) consumer.receive(WAIT)).getObject(), List.of(1, 2));
            equal(((BytesMessage) consumer.receive(WAIT)).getBodyLength(), 3_000_000L);
        }
    }

    private static void headers() throws Exception {
        try (JMSContext context = open()) {
            Queue queue = context.createQueue("headers");
            Queue replies = context.createQueue("replies");
            TextMessage message = context.createTextMessage("x");
            message.setJMSCorrelationID("c-1");
            message.setJMSType("kind");
            message.setJMSReplyTo(replies);
            message.setIntProperty("number", -3);
            message.setBooleanProperty("flag", true);
            message.setDoubleProperty("ratio", 0.5);
            message.setStringProperty("colour", "red");
            context.createProducer().setDeliveryMode(DeliveryMode.NON_PERSISTENT).setPriority(7).send(queue, message);
            Message got = context.createConsumer(queue).receive(WAIT);
            equal(got.getJMSMessageID(), message.getJMSMessageID());
            equal(got.getJMSCorrelationID(), "c-1");
            equal(got.getJMSType(), "kind");
            equal(((Queue) got.getJMSReplyTo()).getQueueName(), "replies");
            equal(got.getJMSPriority(), 7);
            equal(got.getJMSDeliveryMode(), DeliveryMode.NON_PERSISTENT);
            equal(got.getJMSTimestamp(), message.getJMSTimestamp());
            equal(got.getJMSRedelivered(), false);
            equal(((Queue) got.getJMSDestination()).getQueueName(), "headers");
            equal(got.getIntProperty("number"), -3);
            equal(got.getBooleanProperty("flag"), true);
            equal(got.getDoubleProperty("ratio"), 0.5);
            equal(got.getStringProperty("colour"), "red");
        }
    }

    private static void selector() throws Exception {
        try (JMSContext context = open()) {
            Queue queue = context.createQueue("selector");
            JMSConsumer consumer = context.createConsumer(queue, "colour = 'red' AND size > 3");
            context.createProducer().setProperty("colour", "red").setProperty("size", 1).send(queue, "small");
            context.createProducer().setProperty("colour", "blue").setProperty("size", 5).send(queue, "blue");
            context.createProducer().setProperty("colour", "red").setProperty("size", 5).send(queue, "chosen");
            equal(consumer.receiveBody(String.class, WAIT), "chosen");
        }
    }

    private static void invalidSelector() {
        try (JMSContext context = open()) {
            context.createConsumer(context.createQueue("selector"), "colour = = 1");
            throw new AssertionError("an invalid selector was accepted");
        } catch (InvalidSelectorRuntimeException expected) {
            // As JMS says.
        }
    }

    private static void requestReply() throws Exception {
        try (JMSContext client = open(); JMSContext server = open()) {
            Queue requests = client.createQueue("requests");
            TemporaryQueue replies = client.createTemporaryQueue();
            client.createProducer().setJMSReplyTo(replies).setJMSCorrelationID("7").send(requests, "ask");
            Message request = server.createConsumer(requests).receive(WAIT);
            server.createProducer().setJMSCorrelationID(request.getJMSCorrelationID()).send(request.getJMSReplyTo(), "answer");
            try (JMSConsumer consumer = client.createConsumer(replies, "JMSCorrelationID = '7'")) {
                equal(consumer.receiveBody(String.class, WAIT), "answer");
            }
            replies.delete();
        }
    }

    private static void temporaryTopic() throws Exception {
        try (JMSContext context = open()) {
            TemporaryTopic topic = context.createTemporaryTopic();
            JMSConsumer consumer = context.createConsumer(topic);
            context.createProducer().send(topic, "news");
            equal(consumer.receiveBody(String.class, WAIT), "news");
            consumer.close();
            topic.delete();
        }
    }

    private static void transaction() throws Exception {
        try (JMSContext context = open(JMSContext.SESSION_TRANSACTED); JMSContext other = open()) {
            Queue queue = context.createQueue("transaction");
            context.createProducer().send(queue, "rolled back");
            context.rollback();
            context.createProducer().send(queue, "kept");
            context.commit();
            JMSConsumer consumer = context.createConsumer(queue);
            Message first = consumer.receive(WAIT);
            equal(((TextMessage) first).getText(), "kept");
            context.rollback();
            Message again = consumer.receive(WAIT);
            equal(((TextMessage) again).getText(), "kept");
            equal(again.getJMSRedelivered(), true);
            equal(again.getIntProperty("JMSXDeliveryCount"), 2);
            context.commit();
            consumer.close();
            equal(other.createConsumer(queue).receive(200), null);
        }
    }

    private static void recover() throws Exception {
        try (JMSContext context = open(JMSContext.CLIENT_ACKNOWLEDGE)) {
            Queue queue = context.createQueue("recover");
            context.createProducer().send(queue, "x");
            JMSConsumer consumer = context.createConsumer(queue);
            check(!consumer.receive(WAIT).getJMSRedelivered(), "a first delivery is marked as redelivered");
            context.recover();
            Message again = consumer.receive(WAIT);
            check(again.getJMSRedelivered(), "a second delivery is not marked as redelivered");
            again.acknowledge();
        }
    }

    private static void browser() throws Exception {
        try (JMSContext context = open()) {
            Queue queue = context.createQueue("browser");
            for (int at = 0; at < 5; at++) context.createProducer().setProperty("at", at).send(queue, "m" + at);
            equal(texts(context.createBrowser(queue)), List.of("m0", "m1", "m2", "m3", "m4"));
            equal(texts(context.createBrowser(queue, "at > 2")), List.of("m3", "m4"));
            equal(context.createConsumer(queue).receiveBody(String.class, WAIT), "m0");
        }
    }

    private static List<String> texts(QueueBrowser browser) throws Exception {
        List<String> texts = new ArrayList<>();
        for (Enumeration<?> messages = browser.getEnumeration(); messages.hasMoreElements();) {
            texts.add(((TextMessage) messages.nextElement()).getText());
        }
        browser.close();
        return texts;
    }

    private static void expiry() throws Exception {
        try (JMSContext context = open()) {
            Queue queue = context.createQueue("expiry");
            context.createProducer().setTimeToLive(1).send(queue, "short");
            context.createProducer().setTimeToLive(600000).send(queue, "long");
            Thread.sleep(20);
            Message got = context.createConsumer(queue).receive(WAIT);
            equal(((TextMessage) got).getText(), "long");
            check(got.getJMSExpiration() > System.currentTimeMillis(), "the expiry is lost");
        }
    }

    private static void deliveryDelay() throws Exception {
        try (JMSContext context = open()) {
            Queue queue = context.createQueue("delay");
            long before = System.currentTimeMillis();
            context.createProducer().setDeliveryDelay(300).send(queue, "later");
            context.createProducer().send(queue, "now");
            JMSConsumer consumer = context.createConsumer(queue);
            equal(consumer.receiveBody(String.class, WAIT), "now");
            equal(consumer.receiveBody(String.class, WAIT), "later");
            check(System.currentTimeMillis() - before >= 300, "the message came too early");
        }
    }

    private static void priority() throws Exception {
        try (JMSContext context = open()) {
            Queue queue = context.createQueue("priority");
            for (int level : new int[] {1, 4, 9}) context.createProducer().setPriority(level).send(queue, "p" + level);
            JMSConsumer consumer = context.createConsumer(queue);
            for (String text : List.of("p9", "p4", "p1")) equal(consumer.receiveBody(String.class, WAIT), text);
        }
    }

    private static void receiveNoWait() throws Exception {
        try (JMSContext context = open()) {
            Queue queue = context.createQueue("no wait");
            JMSConsumer consumer = context.createConsumer(queue);
            equal(consumer.receiveNoWait(), null);
            context.createProducer().send(queue, "x");
            equal(consumer.receiveBodyNoWait(String.class), "x");
            equal(consumer.receiveNoWait(), null);
        }
    }

    private static void durable() throws Exception {
        try (JMSContext context = open()) {
            context.setClientID("durable-client");
            Topic topic = context.createTopic("durable.topic");
            context.createDurableConsumer(topic, "news").close();
            context.createProducer().send(topic, "while away");
        }
        try (JMSContext context = open()) {
            context.setClientID("durable-client");
            Topic topic = context.createTopic("durable.topic");
            JMSConsumer consumer = context.createDurableConsumer(topic, "news");
            equal(consumer.receiveBody(String.class, WAIT), "while away");
            consumer.close();
            context.unsubscribe("news");
            try {
                context.unsubscribe("news");
                throw new AssertionError("a subscription was deleted twice");
            } catch (InvalidDestinationRuntimeException expected) {
                // As JMS says.
            }
        }
    }

    private static void shared() throws Exception {
        try (JMSContext one = open(); JMSContext two = open(); JMSContext sender = open()) {
            Topic topic = one.createTopic("shared.topic");
            JMSConsumer first = one.createSharedConsumer(topic, "team");
            JMSConsumer second = two.createSharedConsumer(topic, "team");
            shareOut(first, second, sender, topic);
        }
    }

    private static void sharedDurable() throws Exception {
        try (JMSContext one = open(); JMSContext two = open(); JMSContext sender = open()) {
            Topic topic = one.createTopic("shared.durable.topic");
            JMSConsumer first = one.createSharedDurableConsumer(topic, "durable team");
            JMSConsumer second = two.createSharedDurableConsumer(topic, "durable team");
            shareOut(first, second, sender, topic);
            first.close();
            second.close();
            sender.createProducer().send(topic, "kept");
            JMSConsumer again = one.createSharedDurableConsumer(topic, "durable team");
            equal(again.receiveBody(String.class, WAIT), "kept");
            again.close();
            one.unsubscribe("durable team");
        }
    }

    private static void shareOut(JMSConsumer first, JMSConsumer second, JMSContext sender, Topic topic) {
        for (int at = 0; at < 10; at++) sender.createProducer().send(topic, "m" + at);
        List<String> got = new ArrayList<>();
        long end = System.currentTimeMillis() + WAIT;
        while (got.size() < 10 && System.currentTimeMillis() < end) {
            for (JMSConsumer consumer : List.of(first, second)) {
                String text = consumer.receiveBody(String.class, 50);
                if (text != null) got.add(text);
            }
        }
        Collections.sort(got);
        List<String> all = new ArrayList<>();
        for (int at = 0; at < 10; at++) all.add("m" + at);
        equal(got, all);
    }

    private static void noLocal() throws Exception {
        Connection connection = factory.createConnection();
        try (JMSContext other = open()) {
            connection.start();
            Session session = connection.createSession();
            Topic topic = session.createTopic("local.topic");
            MessageConsumer consumer = session.createConsumer(topic, null, true);
            session.createProducer(topic).send(session.createTextMessage("own"));
            other.createProducer().send(topic, "other");
            equal(((TextMessage) consumer.receive(WAIT)).getText(), "other");
        } finally {
            connection.close();
        }
    }

    private static void clientId() throws Exception {
        Connection first = factory.createConnection();
        Connection second = factory.createConnection();
        try {
            first.setClientID("only-one");
            try {
                second.setClientID("only-one");
                throw new AssertionError("two connections have one client id");
            } catch (InvalidClientIDException expected) {
                // As JMS says.
            }
        } finally {
            first.close();
            second.close();
        }
    }

    private static void completionListener() throws Exception {
        try (JMSContext context = open()) {
            Queue queue = context.createQueue("completions");
            java.util.concurrent.CountDownLatch done = new java.util.concurrent.CountDownLatch(100);
            JMSProducer producer = context.createProducer().setAsync(new CompletionListener() {
                public void onCompletion(Message message) { done.countDown(); }
                public void onException(Message message, Exception error) { error.printStackTrace(); }
            });
            for (int at = 0; at < 100; at++) producer.send(queue, "m" + at);
            check(done.await(WAIT, java.util.concurrent.TimeUnit.MILLISECONDS), "not all sends were confirmed");
            JMSConsumer consumer = context.createConsumer(queue);
            for (int at = 0; at < 100; at++) equal(consumer.receiveBody(String.class, WAIT), "m" + at);
        }
    }

    private static void anonymousProducer() throws Exception {
        Connection connection = factory.createConnection();
        try {
            connection.start();
            Session session = connection.createSession();
            MessageProducer producer = session.createProducer(null);
            Topic topic = session.createTopic("anonymous");
            MessageConsumer onTopic = session.createConsumer(topic);
            MessageConsumer onQueue = session.createConsumer(session.createQueue("anonymous"));
            producer.send(topic, session.createTextMessage("to the topic"));
            producer.send(session.createQueue("anonymous"), session.createTextMessage("to the queue"));
            equal(((TextMessage) onTopic.receive(WAIT)).getText(), "to the topic");
            equal(((TextMessage) onQueue.receive(WAIT)).getText(), "to the queue");
        } finally {
            connection.close();
        }
    }
}
