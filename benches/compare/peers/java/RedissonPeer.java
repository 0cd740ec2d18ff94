import java.util.List;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson's RLock, as a benchmark subject. */
final class RedissonPeer implements Protocol.Library<RedissonClient> {
    public static void main(String[] arguments) {
        var notes = List.of(
                "lock() with the watchdog on, everywhere, as it is by default; lockWatchdogTimeout is the TTL",
                "RedissonRedLock, its lock on five servers, is deprecated, and its successors are no such lock:"
                        + " RedissonMultiLock wants all five, so there is none");
        var backends = List.of("redis", "redis-sentinel", "redis-cluster");
        Protocol.serve("redisson", "org.redisson", "redisson", backends, notes, new RedissonPeer());
    }

    @Override
    public RedissonClient connect(String backend, List<String> servers) {
        var config = new Config().setLockWatchdogTimeout(Protocol.TTL);
        var addresses = servers.stream().filter(server -> server.contains("://")).toArray(String[]::new);
        switch (backend) {
            case "redis-cluster" -> config.useClusterServers().addNodeAddress(addresses);
            case "redis-sentinel" -> {
                var master = servers.get(servers.size() - 1).replace("master=", "");
                config.useSentinelServers().addSentinelAddress(addresses).setMasterName(master);
            }
            default -> config.useSingleServer().setAddress(addresses[0]);
        }
        return Redisson.create(config);
    }

    @Override
    public Protocol.Hold lock(RedissonClient client, String name) {
        var lock = client.getLock(name);
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
