"""redis-py's own lock: SET NX, polled."""

from redis import Redis
from redis.cluster import RedisCluster
from redis.exceptions import LockError
from redis.sentinel import Sentinel

from protocol import Library, Lost, addresses, sentinels, serve


class RedisPy(Library):
    name = "redis-py"
    packages = ("redis",)
    backends = ("redis", "redis-sentinel", "redis-cluster")
    notes = ("no watchdog: held locks are renewed one by one, at a third of the TTL",)

    def open(self, backend, urls):
        if backend == "redis-sentinel":
            nodes, master = sentinels(urls)
            self.client = Sentinel(nodes).master_for(master)
        elif backend == "redis-cluster":
            # The client asks this node for the Cluster's other nodes.
            host, port = addresses(urls)[0]
            self.client = RedisCluster(host=host, port=port)
        else:
            self.client = Redis.from_url(urls[0])
        self.client.ping()

    def lock(self, name, ttl, thread_local=True):
        lock = self.client.lock(name, timeout=ttl / 1000, thread_local=thread_local)
        lock.acquire()
        return lock

    def keep(self, name, ttl):
        # Other threads renew and release this lock, so its token isn't thread-local.
        return self.lock(name, ttl, thread_local=False)

    def renew(self, hold):
        hold.reacquire()

    def unlock(self, hold):
        try:
            hold.release()
        except LockError as error:
            raise Lost from error


serve(RedisPy())
