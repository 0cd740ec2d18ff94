import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryForever;

/**
 * Drives Curator's own lock, for tests with Lockwright.
 *
 * <pre>Curator TTL HOST:PORT,...</pre>
 *
 * <p>The program has one session, with a timeout of TTL seconds. {@code src/peer.rs} describes the
 * commands. A name is the path of the lock's parent node. "not ours" means that the session of the
 * grant has ended.
 */
public final class Curator {
    private final CuratorFramework client;
    private final Map<String, InterProcessMutex> taken = new HashMap<>();
    private final AtomicBoolean ended = new AtomicBoolean();

    private Curator(CuratorFramework client) {
        this.client = client;
        client.getConnectionStateListenable().addListener((same, state) -> {
            if (state == ConnectionState.LOST) {
                ended.set(true);
            }
        });
    }

    public static void main(String[] arguments) throws Exception {
        var client = CuratorFrameworkFactory.builder()
            .sessionTimeoutMs(Integer.parseInt(arguments[0]) * 1000)
            .connectString(arguments[1])
            .retryPolicy(new RetryForever(100))
            .build();
        var locks = new Curator(client);
        client.start();
        // One thread for all locks, because a lock belongs to the thread that acquired it.
        var worker = Executors.newSingleThreadExecutor();
        var commands = new BufferedReader(new InputStreamReader(System.in));
        for (var line = commands.readLine(); line != null; line = commands.readLine()) {
            var command = line.strip().split(" ");
            worker.execute(() -> System.out.println(locks.answer(command)));
        }
        Runtime.getRuntime().halt(0);
    }

    private String answer(String[] command) {
        try {
            return outcome(command);
        } catch (Exception error) {
            return "failed: " + error;
        }
    }

    private String outcome(String[] command) throws Exception {
        if (command.length != 2) {
            return "no such command: " + String.join(" ", command);
        }
        var name = command[1];
        var fresh = new InterProcessMutex(client, name);
        switch (command[0]) {
            case "try":
                // With a timeout of 0, Curator waits for the server's answers, but not for the
                // lock.
                return took(name, fresh, fresh.acquire(0, TimeUnit.SECONDS));
            case "wait":
                fresh.acquire();
                return took(name, fresh, true);
            case "release":
                taken.get(name).release();
                return ended.get() ? "not ours" : "released";
            default:
                return "no such command: " + String.join(" ", command);
        }
    }

    private String took(String name, InterProcessMutex mutex, boolean yes) {
        if (yes) {
            ended.set(false);
            taken.put(name, mutex);
        }
        return yes ? "yes" : "no";
    }
}
