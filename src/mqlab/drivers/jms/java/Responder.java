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

/** Receives requests, and sends replies in a second session: the first one belongs to its listener's thread. */
public final class Responder extends Receiver {
    private final ProducerSession producerSession;
    private final Map<String, MessageProducer> producers = new HashMap<>();
    private List<Message> collected = new ArrayList<>();
    private List<Message> requests = new ArrayList<>();

    Responder(CompletionQueue completions, Worker worker, int maxRows, Closer closer, ProducerSession producerSession) {
        super(completions, worker, maxRows, closer);
        this.producerSession = producerSession;
    }

    @Override
    void add(Batch to, Message message) throws Exception {
        super.add(to, message);
        collected.add(message);
    }

    @Override
    public synchronized byte[] take() {
        requests = collected;
        collected = new ArrayList<>();
        return super.take();
    }

    /** Answers the last batch: reply i, of sizes[i] bytes, answers its request i. */
    public void reply(long ticket, ByteBuffer data, int[] sizes, boolean wait) {
        List<Message> answered = requests;
        worker.submit(ticket, () -> {
            int begin = 0;
            for (int row = 0; row < sizes.length; row++) {
                Message request = answered.get(row);
                BytesMessage message = producerSession.message(data, begin, new byte[sizes[row]]);
                begin += sizes[row];
                message.setJMSCorrelationID(request.getJMSCorrelationID());
                message.setStringProperty(Requester.REQUEST, request.getStringProperty(Requester.REQUEST));
                producerSession.send(producer(request), message, wait);
            }
            producerSession.settle(wait);
            return null;
        });
    }

    private MessageProducer producer(Message request) throws JMSException {
        if (!(request.getJMSReplyTo() instanceof Queue)) {
            throw new JMSException("a request has no reply queue");
        }
        Queue replies = (Queue) request.getJMSReplyTo();
        MessageProducer producer = producers.get(replies.getQueueName());
        if (producer == null) {
            producer = producerSession.producer(replies);
            producers.put(replies.getQueueName(), producer);
        }
        return producer;
    }
}
