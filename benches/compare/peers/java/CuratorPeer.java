import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Curator's InterProcessMutex, as a benchmark subject. */
final class CuratorPeer implements Protocol.Library<CuratorFramework> {
    private final AtomicLong ended = new AtomicLong();

    public static void main(String[] arguments) {
        var notes = List.of(
                "one session for all locks, whose timeout is the TTL (the default is 60 s); the server may have its"
                        + " own idea of it",
                "ExponentialBackoffRetry(1000, 3), as in its documentation");
        Protocol.serve(
                "curator", "org.apache.curator", "curator-recipes", List.of("zookeeper"), notes, new CuratorPeer());
    }

    @Override
    public CuratorFramework connect(String backend, List<String> servers) throws Exception {
        var session = CuratorFrameworkFactory.builder()
                .connectString(String.join(",", servers))
                .sessionTimeoutMs(Protocol.TTL)
                .retryPolicy(new ExponentialBackoffRetry(1000, 3))
                .build();
        session.getConnectionStateListenable().addListener((same, state) -> {
            if (state == ConnectionState.LOST) {
                ended.incrementAndGet();
            }
        });
        session.start();
        if (!session.blockUntilConnected(10, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no server of " + servers + " answers");
        }
        return session;
    }

    @Override
    public Protocol.Hold lock(CuratorFramework session, String name) throws Exception {
        var mutex = new InterProcessMutex(session, "/" + name);
        var before = ended.get();
        mutex.acquire();
        return () -> {
            mutex.release();
            if (ended.get() != before) {
                throw new Protocol.Lost();
            }
        };
    }
}
