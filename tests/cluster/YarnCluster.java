import java.io.Writer;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.ResourceScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler;

/** YARN with one node, until the process ends. Its argument: the file for the settings of its clients. */
public final class YarnCluster {
    public static void main(String[] arguments) throws Exception {
        YarnConfiguration settings = new YarnConfiguration();
        // Java and Python reserve more addresses than memory; and a disk may be nearly full.
        settings.setBoolean(YarnConfiguration.NM_VMEM_CHECK_ENABLED, false);
        settings.setBoolean(YarnConfiguration.NM_DISK_HEALTH_CHECK_ENABLE, false);
        // Without queues, which would need settings of their own.
        settings.setClass(YarnConfiguration.RM_SCHEDULER, FifoScheduler.class, ResourceScheduler.class);
        MiniYARNCluster cluster = new MiniYARNCluster("mqlab", 1, 1, 1);
        cluster.init(settings);
        cluster.start();
        cluster.waitForNodeManagersToConnect(120_000);
        try (Writer file = Files.newBufferedWriter(Path.of(arguments[0]))) {
            cluster.getConfig().writeXml(file);
        }
        System.out.println("YARN has started");
    }
}
