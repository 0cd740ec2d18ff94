"""kazoo's lock: a sequence of ephemeral nodes, each watching its predecessor."""

from kazoo.client import KazooClient

from protocol import Library, serve


class Kazoo(Library):
    name = "kazoo"
    packages = ("kazoo",)
    backends = ("zookeeper",)
    notes = ("the TTL is the session's timeout, 10 s as it is by default",)

    def open(self, backend, urls):
        self.client = KazooClient(hosts=",".join(urls))
        self.client.start()

    def lock(self, name, ttl):
        lock = self.client.Lock(f"/kazoo/{name}")
        lock.acquire()
        return lock

    def unlock(self, hold):
        hold.release()


serve(Kazoo())
