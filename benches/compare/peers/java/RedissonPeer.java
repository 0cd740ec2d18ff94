import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson's RLock, as a benchmark subject. */
final class RedissonPeer implements Protocol.Library {
    /** The TTL of the driver's locks. */
    private static final long DEFAULT_TTL = 15_000;

    private String backend;
    private List<String> servers;
    /** The clients by TTL, because all locks of a client have one TTL. */
    private final Map<Long, RedissonClient> clients = new ConcurrentHashMap<>();

    public static void main(String[] arguments) {
        var notes = List.of(
                "lock() with the watchdog on, everywhere, as it is by default; lockWatchdogTimeout is the TTL",
                "RedissonRedLock, its lock on five servers, is deprecated, and its successors are no such lock:"
                        + " RedissonMultiLock wants all five, so there is none");
        var backends = List.of("redis", "redis-sentinel", "redis-cluster");
        Protocol.serve("redisson", "org.redisson", "redisson", backends, notes, new RedissonPeer());
    }

    @Override
    public void open(String backend, List<String> servers) throws Exception {
        this.backend = backend;
        this.servers = servers;
        prepare(DEFAULT_TTL);
    }

    @Override
    public void prepare(long ttl) throws Exception {
        if (!clients.containsKey(ttl)) {
            clients.put(ttl, Redisson.create(config().setLockWatchdogTimeout(ttl)));
        }
    }

    private Config config() throws Exception {
        var config = new Config();
        var addresses = servers.stream().filter(server -> server.contains("://")).toArray(String[]::new);
        switch (backend) {
            case "redis":
                config.useSingleServer().setAddress(addresses[0]);
                break;
            case "redis-cluster":
                config.useClusterServers().addNodeAddress(addresses);
                break;
            case "redis-sentinel":
                config.useSentinelServers().addSentinelAddress(addresses).setMasterName(master());
                break;
            default:
                throw new Protocol.Cannot("lock on " + backend);
        }
        return config;
    }

    private String master() {
        var word = "master=";
        return servers.stream()
                .filter(server -> server.startsWith(word))
                .map(server -> server.substring(word.length()))
                .findFirst()
                .orElseThrow();
    }

    @Override
    public Protocol.Hold lock(String name, long ttl) {
        var lock = clients.get(ttl).getLock(name);
        lock.lock();
        return () -> {
            try {
                lock.unlock();
            } catch (IllegalMonitorStateException notHeld) {
                throw new Protocol.Lost();
            }
        };
    }
}
