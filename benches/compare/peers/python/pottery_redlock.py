"""pottery's Redlock, on redis-py."""

import sys

from pottery import Redlock, ReleaseUnlockedLock
from redis import Redis

from protocol import Library, Lost, serve


class Pottery(Library):
    name = "pottery"
    packages = ("pottery", "redis")
    backends = ("redlock-5",)
    notes = (
        "no watchdog: held locks are extended one by one, at a third of the TTL",
        "may extend without limit, where the default is three times",
    )

    def open(self, backend, urls):
        self.masters = {Redis.from_url(url) for url in urls}
        for master in self.masters:
            master.ping()

    def lock(self, name, ttl):
        lock = Redlock(
            key=name,
            masters=self.masters,
            auto_release_time=ttl / 1000,
            num_extensions=sys.maxsize,
        )
        lock.acquire()
        return lock

    def renew(self, hold):
        hold.extend()

    def unlock(self, hold):
        try:
            hold.release()
        except ReleaseUnlockedLock as error:
            raise Lost from error


serve(Pottery())
