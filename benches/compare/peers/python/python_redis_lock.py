"""python-redis-lock: SET NX, and BLPOP of a list to which the holder pushes at its release."""

from redis import StrictRedis
from redis.sentinel import Sentinel
from redis_lock import Lock, NotAcquired

from protocol import Library, Lost, sentinels, serve

# No timeout, because redis-py's default would end longer waits. Many connections, because each
# waiter and each renewing thread has its own.
SETTINGS = {"socket_timeout": None, "max_connections": 4096}


class PythonRedisLock(Library):
    name = "python-redis-lock"
    packages = ("python-redis-lock", "redis")
    backends = ("redis", "redis-sentinel")
    notes = (
        "the TTL is rounded up to seconds",
        "redis-py without its timeout of 5 s, which fails what waits for longer, and with more than 100 connections",
        "pairs without auto_renewal, which is its default; turns and holds with it: a thread for each lock",
    )

    def open(self, backend, urls):
        if backend == "redis-sentinel":
            nodes, master = sentinels(urls)
            self.client = Sentinel(nodes).master_for(master, **SETTINGS)
        else:
            self.client = StrictRedis.from_url(urls[0], **SETTINGS)
        self.client.ping()

    def lock_alone(self, name, ttl):
        return self.lock(name, ttl, auto_renewal=False)

    def lock(self, name, ttl, auto_renewal=True):
        lock = Lock(self.client, name, expire=-(-ttl // 1000), auto_renewal=auto_renewal)
        lock.acquire()
        return lock

    def unlock(self, hold):
        try:
            hold.release()
        except NotAcquired as error:
            raise Lost from error


serve(PythonRedisLock())
