package mqlab.jms;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;

import javax.jms.BytesMessage;
import javax.jms.JMSException;
import javax.jms.Message;

/** Bodies of one batch for Python: body i is data[offsets[i]] up to data[offsets[i + 1]]. */
final class Batch {
    private byte[] data = new byte[4096];
    private int[] offsets = new int[257];
    private int rows;
    private boolean redelivered;
    private byte[] body = new byte[256];

    void add(Message message) throws JMSException {
        if (!(message instanceof BytesMessage)) {
            throw new JMSException("not a BytesMessage: " + message.getClass().getSimpleName());
        }
        BytesMessage bytes = (BytesMessage) message;
        int size = (int) bytes.getBodyLength();
        int begin = offsets[rows];
        if (begin + size > data.length) {
            data = Arrays.copyOf(data, Math.max(begin + size, 2 * data.length));
        }
        if (rows + 1 == offsets.length) {
            offsets = Arrays.copyOf(offsets, 2 * offsets.length);
        }
        if (size > body.length) {
            body = new byte[size];
        }
        // JMS can read only to the start of an array.
        int read = size == 0 ? 0 : bytes.readBytes(body, size);
        if (read != size) {
            throw new JMSException("a body of " + size + " bytes has only " + read);
        }
        System.arraycopy(body, 0, data, begin, size);
        offsets[++rows] = begin + size;
        redelivered |= message.getJMSRedelivered();
    }

    /** Whether the message fits: a batch has either redelivered messages or others. */
    boolean accepts(Message message) throws JMSException {
        return rows == 0 || redelivered == message.getJMSRedelivered();
    }

    int rows() {
        return rows;
    }

    /** Packs the batch for one call from Python: rows, redelivered, offsets (native byte order), data. */
    byte[] pack() {
        int begin = Integer.BYTES * (rows + 3);
        byte[] packed = new byte[begin + offsets[rows]];
        ByteBuffer.wrap(packed).order(ByteOrder.nativeOrder()).asIntBuffer()
                .put(rows).put(redelivered ? 1 : 0).put(offsets, 0, rows + 1);
        System.arraycopy(data, 0, packed, begin, offsets[rows]);
        return packed;
    }
}
