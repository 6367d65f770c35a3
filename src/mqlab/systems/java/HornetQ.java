import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;

import org.hornetq.api.core.SimpleString;
import org.hornetq.api.core.TransportConfiguration;
import org.hornetq.core.config.impl.ConfigurationImpl;
import org.hornetq.core.protocol.core.Packet;
import org.hornetq.core.protocol.core.impl.wireformat.SessionBindingQueryMessage;
import org.hornetq.core.protocol.core.impl.wireformat.SessionQueueQueryMessage;
import org.hornetq.core.remoting.impl.netty.NettyAcceptorFactory;
import org.hornetq.core.server.JournalType;
import org.hornetq.core.server.Queue;
import org.hornetq.core.settings.impl.AddressFullMessagePolicy;
import org.hornetq.core.settings.impl.AddressSettings;
import org.hornetq.jms.server.config.impl.JMSConfigurationImpl;
import org.hornetq.jms.server.embedded.EmbeddedJMS;
import org.hornetq.jms.server.impl.JMSServerManagerImpl;

/**
 * HornetQ as a server, which its jars alone have no program for: PORT ADMIN_PORT FOLDER SYNC(true or false).
 *
 * Queues and topics are made when a client first asks for them. On the second port it answers `depth QUEUE` and
 * `remove QUEUE`, a line each.
 */
public final class HornetQ extends EmbeddedJMS {
    private static final String QUEUE = "jms.queue.";
    private static final String TOPIC = "jms.topic.";
    private static final long PAGE_ABOVE = 256L << 20;
    private static final int BUFFER_SIZE = 1 << 20;

    public static void main(String[] arguments) throws Exception {
        HornetQ server = new HornetQ();
        server.setConfiguration(configuration(
                Integer.parseInt(arguments[0]), Path.of(arguments[2]), Boolean.parseBoolean(arguments[3])));
        server.setJmsConfiguration(new JMSConfigurationImpl());
        server.start();
        server.getHornetQServer().getRemotingService().addIncomingInterceptor((packet, connection) -> {
            server.make(packet);
            return true;
        });
        server.answer(new ServerSocket(Integer.parseInt(arguments[1]), 50, InetAddress.getLoopbackAddress()));
    }

    private static ConfigurationImpl configuration(int port, Path folder, boolean sync) {
        ConfigurationImpl made = new ConfigurationImpl();
        made.setSecurityEnabled(false);
        made.setJournalType(JournalType.NIO);
        made.setJournalSyncTransactional(sync);
        made.setJournalSyncNonTransactional(sync);
        made.setBindingsDirectory(folder.resolve("bindings").toString());
        made.setJournalDirectory(folder.resolve("journal").toString());
        made.setPagingDirectory(folder.resolve("paging").toString());
        made.setLargeMessagesDirectory(folder.resolve("large").toString());
        // Its own 32 KiB are less than one segment of the loopback: each then waits for a timer of TCP.
        Map<String, Object> where = new HashMap<>(Map.of(
                "host", "127.0.0.1", "port", port,
                "tcp-send-buffer-size", BUFFER_SIZE, "tcp-receive-buffer-size", BUFFER_SIZE));
        made.setAcceptorConfigurations(Set.of(new TransportConfiguration(NettyAcceptorFactory.class.getName(), where)));
        AddressSettings settings = new AddressSettings();
        settings.setMaxSizeBytes(PAGE_ABOVE);
        settings.setPageSizeBytes(PAGE_ABOVE / 16);
        settings.setAddressFullMessagePolicy(AddressFullMessagePolicy.PAGE);
        // What a client gives back comes again, however often.
        settings.setMaxDeliveryAttempts(-1);
        settings.setRedeliveryDelay(0);
        made.setAddressesSettings(new HashMap<>(Map.of("#", settings)));
        return made;
    }

    /** What a client asks for before it uses it. All packets come by here: most must pass without a lock. */
    private void make(Packet packet) {
        if (packet instanceof SessionQueueQueryMessage) {
            make(((SessionQueueQueryMessage) packet).getQueueName().toString());
        } else if (packet instanceof SessionBindingQueryMessage) {
            make(((SessionBindingQueryMessage) packet).getAddress().toString());
        }
    }

    private synchronized void make(String name) {
        try {
            if (name.startsWith(QUEUE)) {
                serverManager.createQueue(false, name.substring(QUEUE.length()), null, true);
            } else if (name.startsWith(TOPIC)) {
                serverManager.createTopic(false, name.substring(TOPIC.length()));
            }
        } catch (Exception error) {
            error.printStackTrace();
        }
    }

    private void answer(ServerSocket socket) throws Exception {
        while (true) {
            try (Socket client = socket.accept()) {
                String line = new BufferedReader(new InputStreamReader(client.getInputStream())).readLine();
                client.getOutputStream().write((answer(line == null ? "" : line) + "\n").getBytes());
            } catch (Exception error) {
                error.printStackTrace();
            }
        }
    }

    private String answer(String line) throws Exception {
        String[] words = line.split(" ");
        if (words[0].equals("depth")) {
            Queue queue = getHornetQServer().locateQueue(new SimpleString(words[1]));
            return queue == null ? "none" : Long.toString(queue.getMessageCount());
        }
        if (words[0].equals("remove")) {
            return Boolean.toString(serverManager.destroyQueue(words[1].substring(QUEUE.length())));
        }
        return "";
    }
}
