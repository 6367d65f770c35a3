import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/** A broker for tests: `pip install mqlab` brings the program. MQLAB names another one. */
public class MqlabBroker implements AutoCloseable {
    public final int port;
    private final Path folder = Files.createTempDirectory("mqlab-");
    private final Process process;

    public MqlabBroker() throws IOException {
        String program = System.getenv().getOrDefault("MQLAB", "mqlab");
        List<String> command = new ArrayList<>(List.of(program.split(" ")));
        command.addAll(List.of("broker", "--data=" + folder, "--sync=off", "--listen=tcp:127.0.0.1:0"));
        process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        String line = new BufferedReader(new InputStreamReader(process.getInputStream())).readLine();
        if (line == null) {
            throw new IOException("the broker did not start");
        }
        port = Integer.parseInt(line.substring(line.lastIndexOf(':') + 1));
    }

    @Override
    public void close() throws Exception {
        process.destroy();
        process.waitFor();
        try (Stream<Path> files = Files.walk(folder)) {
            files.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
        }
    }
}
