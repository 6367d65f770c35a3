package mqlab.jms;

import java.nio.ByteBuffer;

import javax.jms.BytesMessage;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageProducer;

/** A producer, and the thread that sends whole batches with it. */
public final class Sender extends Link {
    /** The name of the column that has the priorities: no property may have it. */
    private static final String PRIORITY = "JMSPriority";

    private final ProducerSession producerSession;
    private final MessageProducer producer;

    Sender(Worker worker, ProducerSession producerSession, MessageProducer producer) {
        super(worker, producerSession::close);
        this.producerSession = producerSession;
        this.producer = producer;
    }

    /**
     * Sends `rows` messages of one size from `data`; `columns` (long[], int[], double[], String[]) have a property of
     * each, or its priority. They expire after `timeToLive` ms, if that is not 0.
     * Completes with `wait` when all are confirmed, with `report` when the broker has accepted them, if the provider
     * can tell.
     */
    public void send(
            long ticket, ByteBuffer data, int rows, int size, boolean wait, boolean report, String[] names,
            Object[] columns, long timeToLive) {
        worker.submit(ticket, () -> {
            if (timeToLive > 0) {
                producer.setTimeToLive(timeToLive);
            }
            byte[] body = new byte[size];
            for (int row = 0; row < rows; row++) {
                BytesMessage message = producerSession.message(data, row * size, body);
                for (int column = 0; column < names.length; column++) {
                    set(message, names[column], columns[column], row);
                }
                if (report && row == rows - 1) {
                    producerSession.sendAccepted(producer, message);
                } else {
                    producerSession.send(producer, message, wait);
                }
            }
            producerSession.settle(wait);
            return null;
        });
    }

    /** Sends messages with correlation ids that no requester uses. */
    public void preload(long ticket, ByteBuffer data, int rows, int size) {
        worker.submit(ticket, () -> {
            byte[] body = new byte[size];
            for (int row = 0; row < rows; row++) {
                BytesMessage message = producerSession.message(data, row * size, body);
                message.setJMSCorrelationID("preload-" + row);
                producerSession.send(producer, message, true);
            }
            producerSession.settle(true);
            return null;
        });
    }

    public void commit(long ticket) {
        worker.submit(ticket, () -> {
            producerSession.session.commit();
            return null;
        });
    }

    private void set(Message message, String name, Object column, int row) throws JMSException {
        if (name.equals(PRIORITY)) {
            producer.setPriority(((int[]) column)[row]);
        } else if (column instanceof String[]) {
            message.setStringProperty(name, ((String[]) column)[row]);
        } else if (column instanceof long[]) {
            message.setLongProperty(name, ((long[]) column)[row]);
        } else if (column instanceof int[]) {
            message.setIntProperty(name, ((int[]) column)[row]);
        } else {
            message.setDoubleProperty(name, ((double[]) column)[row]);
        }
    }
}
