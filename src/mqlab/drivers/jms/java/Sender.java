package mqlab.jms;

import java.nio.ByteBuffer;

import javax.jms.BytesMessage;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageProducer;

/** A producer, and a thread that sends whole batches with it. */
public final class Sender extends Link {
    private final Outlet outlet;
    private final MessageProducer producer;

    Sender(Worker worker, Outlet outlet, MessageProducer producer) {
        super(worker, outlet::close);
        this.outlet = outlet;
        this.producer = producer;
    }

    /**
     * `rows` messages of one size that lie in `data`; `columns` (long[], int[], double[]) have a value for each. With
     * `wait` it ends when all are confirmed, with `mark` when the system has taken them, if the provider can tell.
     */
    public void send(
            long ticket, ByteBuffer data, int rows, int size, boolean wait, boolean mark, String[] names,
            Object[] columns) {
        worker.order(ticket, () -> {
            byte[] body = new byte[size];
            for (int row = 0; row < rows; row++) {
                BytesMessage message = outlet.message(data, row * size, body);
                for (int column = 0; column < names.length; column++) {
                    set(message, names[column], columns[column], row);
                }
                if (mark && row == rows - 1) {
                    outlet.mark(producer, message);
                } else {
                    outlet.send(producer, message, wait);
                }
            }
            outlet.settle(wait);
            return null;
        });
    }

    /** Messages with correlation ids that nobody asks for. */
    public void preload(long ticket, ByteBuffer data, int rows, int size) {
        worker.order(ticket, () -> {
            byte[] body = new byte[size];
            for (int row = 0; row < rows; row++) {
                BytesMessage message = outlet.message(data, row * size, body);
                message.setJMSCorrelationID("preload-" + row);
                outlet.send(producer, message, true);
            }
            outlet.settle(true);
            return null;
        });
    }

    public void commit(long ticket) {
        worker.order(ticket, () -> {
            outlet.session.commit();
            return null;
        });
    }

    private static void set(Message message, String name, Object column, int row) throws JMSException {
        if (column instanceof long[]) {
            message.setLongProperty(name, ((long[]) column)[row]);
        } else if (column instanceof int[]) {
            message.setIntProperty(name, ((int[]) column)[row]);
        } else {
            message.setDoubleProperty(name, ((double[]) column)[row]);
        }
    }
}
