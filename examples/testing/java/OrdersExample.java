// Qpid JMS and Paho on a broker that this program starts; no container.
//   javac -cp 'JARS/*' *.java && java -cp 'JARS/*:.' OrdersExample
// JARS: org.apache.qpid:qpid-jms-client and org.eclipse.paho:org.eclipse.paho.client.mqttv3, with their dependencies.
import javax.jms.ConnectionFactory;
import javax.jms.JMSConsumer;
import javax.jms.JMSContext;
import javax.jms.Message;
import javax.jms.Queue;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.eclipse.paho.client.mqttv3.MqttClient;
import org.eclipse.paho.client.mqttv3.persist.MemoryPersistence;

public class OrdersExample {
    static final long MS = 60_000;

    public static void main(String[] arguments) throws Exception {
        try (MqlabBroker broker = new MqlabBroker()) {
            orderOverJms("amqp://127.0.0.1:" + broker.port);
            System.out.println("ok Qpid JMS");
            reportOverMqtt("tcp://127.0.0.1:" + broker.port);
            System.out.println("ok Paho");
        }
    }

    static void orderOverJms(String url) throws Exception {
        ConnectionFactory factory = new JmsConnectionFactory(url);
        try (JMSContext context = factory.createContext(JMSContext.SESSION_TRANSACTED)) {
            Queue orders = context.createQueue("orders");
            context.createProducer().setProperty("fruit", "apple").send(orders, "ten apples");
            context.commit();
            JMSConsumer consumer = context.createConsumer(orders, "fruit = 'apple'");
            Message order = consumer.receive(MS);
            check("ten apples".equals(order.getBody(String.class)));
            context.rollback();
            order = consumer.receive(MS);
            check(order.getJMSRedelivered());
            context.commit();
        }
    }

    static void reportOverMqtt(String url) throws Exception {
        BlockingQueue<String> reports = new ArrayBlockingQueue<>(3);
        MqttClient client = new MqttClient(url, "meter", new MemoryPersistence());
        client.connect();
        client.subscribe("meters/+", 2, (topic, message) -> reports.add(topic + " " + message.getQos()));
        for (int qos = 0; qos < 3; qos++) {
            client.publish("meters/" + qos, "230".getBytes(), qos, false);
            check(("meters/" + qos + " " + qos).equals(reports.poll(MS, TimeUnit.MILLISECONDS)));
        }
        client.disconnect();
        client.close();
    }

    static void check(boolean holds) {
        if (!holds) {
            throw new AssertionError();
        }
    }
}
