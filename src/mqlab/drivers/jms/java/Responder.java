package mqlab.jms;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import javax.jms.BytesMessage;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageProducer;
import javax.jms.Queue;

/** A receiver of requests that sends replies in a session of their own: that of the requests is its listener's. */
public final class Responder extends Receiver {
    private final Outlet outlet;
    private final Map<String, MessageProducer> producers = new HashMap<>();
    private List<Message> coming = new ArrayList<>();
    private List<Message> asked = new ArrayList<>();

    /** With a way out for replies. */
    Responder(Bell bell, Worker worker, int most, Ending ending, Outlet outlet) {
        super(bell, worker, most, ending);
        this.outlet = outlet;
    }

    @Override
    void add(Batch to, Message message) throws Exception {
        super.add(to, message);
        coming.add(message);
    }

    @Override
    public synchronized byte[] take() {
        asked = coming;
        coming = new ArrayList<>();
        return super.take();
    }

    /** To what was last taken: reply i, of sizes[i] bytes, is that to request i. */
    public void reply(long ticket, ByteBuffer data, int[] sizes, boolean wait) {
        List<Message> requests = asked;
        worker.order(ticket, () -> {
            int begin = 0;
            for (int row = 0; row < sizes.length; row++) {
                Message request = requests.get(row);
                BytesMessage message = outlet.message(data, begin, new byte[sizes[row]]);
                begin += sizes[row];
                message.setJMSCorrelationID(request.getJMSCorrelationID());
                message.setStringProperty(Requester.REQUEST, request.getStringProperty(Requester.REQUEST));
                outlet.send(producer(request), message, wait);
            }
            outlet.settle(wait);
            return null;
        });
    }

    private MessageProducer producer(Message request) throws JMSException {
        if (!(request.getJMSReplyTo() instanceof Queue)) {
            throw new JMSException("a request does not say on which queue it wants its reply");
        }
        Queue replies = (Queue) request.getJMSReplyTo();
        MessageProducer producer = producers.get(replies.getQueueName());
        if (producer == null) {
            producer = outlet.producer(replies);
            producers.put(replies.getQueueName(), producer);
        }
        return producer;
    }
}
