package mqlab.jms;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;

import javax.jms.BytesMessage;
import javax.jms.JMSException;
import javax.jms.Message;

/** Bodies that go to Python together: body i is data[offsets[i]] up to data[offsets[i + 1]]. */
final class Batch {
    private byte[] data = new byte[4096];
    private int[] offsets = new int[257];
    private int rows;
    private boolean redelivered;
    private byte[] body = new byte[256];

    void add(Message message) throws JMSException {
        if (!(message instanceof BytesMessage)) {
            throw new JMSException("a message came that is not one of bytes: " + message.getClass().getSimpleName());
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
        // JMS reads to the beginning of an array only.
        int read = size == 0 ? 0 : bytes.readBytes(body, size);
        if (read != size) {
            throw new JMSException("a body of " + size + " bytes has only " + read);
        }
        System.arraycopy(body, 0, data, begin, size);
        offsets[++rows] = begin + size;
        redelivered |= message.getJMSRedelivered();
    }

    /** Whether it can have this one too: those that came again and those that did not stay apart. */
    boolean goesWith(Message message) throws JMSException {
        return rows == 0 || redelivered == message.getJMSRedelivered();
    }

    int rows() {
        return rows;
    }

    /** All in one piece, for one call: rows, whether redelivered, offsets (numbers of this machine), data. */
    byte[] packed() {
        int begin = Integer.BYTES * (rows + 3);
        byte[] packed = new byte[begin + offsets[rows]];
        ByteBuffer.wrap(packed).order(ByteOrder.nativeOrder()).asIntBuffer()
                .put(rows).put(redelivered ? 1 : 0).put(offsets, 0, rows + 1);
        System.arraycopy(data, 0, packed, begin, offsets[rows]);
        return packed;
    }
}
