"""The subjects' side of the benchmarks' protocol in Python. A subject derives from Library and calls
serve. benches/compare/README.md describes the protocol.

Tasks are threads.
"""

import json
import os
import platform
import queue
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from urllib.parse import urlsplit

# The number of names that are acquired or released in parallel.
AT_A_TIME = 16

now = time.monotonic_ns


def addresses(urls):
    """Returns the hosts and ports of the URLs of `open`."""
    parts = map(urlsplit, urls)
    return [(part.hostname, part.port) for part in parts]


def sentinels(urls):
    """Returns the hosts and ports of Sentinels, and the name of the master."""
    *urls, master = urls
    key, _, name = master.partition("=")
    if key != "master":
        raise ValueError(f"the last word isn't the master's name: {master!r}")
    return addresses(urls), name


class Lost(Exception):
    """A lock had expired before its release."""

    def __str__(self):
        return "a lock had expired before it was released"


class Library:
    """A connected lock library, configured as its users would do it. Its methods are called
    concurrently. All TTLs are in milliseconds."""

    # The name in the tables.
    name = ""
    # The pip names of the library's package and of other packages whose versions matter.
    packages = ()
    backends = ()
    notes = ()

    def open(self, backend, urls):
        """Connects."""
        raise NotImplementedError

    def lock_alone(self, name, ttl):
        """Acquires an uncontended name."""
        return self.lock(name, ttl)

    def lock(self, name, ttl):
        """Acquires a name, waiting as the library does, and returns the hold."""
        raise NotImplementedError

    def unlock(self, hold):
        """Releases the hold. Raises Lost if the hold is known to have expired."""
        raise NotImplementedError

    def keep(self, name, ttl):
        """Acquires an uncontended name to be kept alive until its release."""
        return self.lock(name, ttl)

    def renew(self, hold):
        """Renews a hold of `keep`, for libraries without automatic renewal."""


class Subject:
    """A library, and the state between commands."""

    def __init__(self, library):
        self.library = library
        self.held = []
        self.keeper = None

    def answer(self, command):
        what, *words = command.split()
        if what not in ("open", "pairs", "turns", "hold", "wait", "drop"):
            raise ValueError(f"no such command: {command!r}")
        return getattr(self, what)(*words)

    def open(self, backend, *urls):
        self.library.open(backend, list(urls))
        return "ready"

    def pairs(self, name, ttl, limit):
        ttl, times = int(ttl), []
        begun = now()
        end = begun + int(limit) * 1_000_000
        while begun < end:
            self.library.unlock(self.library.lock_alone(name, ttl))
            over = now()
            times.append(over - begun)
            begun = over
        return " ".join(["pairs", *map(str, times)])

    def turns(self, name, ttl, tasks, start, end, section):
        ttl, start, end, section = int(ttl), int(start), int(end), int(section) / 1e6
        turns = []

        def play(task):
            time.sleep(max(0, start - now()) / 1e9)
            while (asked := now()) < end:
                hold = self.library.lock(name, ttl)
                granted = now()
                if section:
                    time.sleep(section)
                released = now()
                lost = ""
                try:
                    self.library.unlock(hold)
                except Lost:
                    lost = ":lost"
                turns.append(f"{task}:{asked}:{granted}:{released}{lost}")

        at_once(int(tasks), range(int(tasks)), play)
        return " ".join(["turns", *turns])

    def hold(self, prefix, first, count, ttl, limit):
        first, ttl = int(first), int(ttl)
        end = now() + int(limit) * 1_000_000
        self.held = held = []
        self.keeper = Keeper(self.library, held, ttl)

        def keep(number):
            if now() < end:
                held.append(self.library.keep(f"{prefix}/{number}", ttl))

        at_once(AT_A_TIME, range(first, first + int(count)), keep)
        return f"held {len(held)}"

    def wait(self, name, ttl, tasks):
        asking = threading.Semaphore(0)

        def wait():
            asking.release()
            try:
                self.library.lock(name, int(ttl))
                print("a waiter was granted what somebody else holds", file=sys.stderr)
            except Exception as error:
                print(complaint(error), file=sys.stderr)

        for _ in range(int(tasks)):
            threading.Thread(target=wait, daemon=True).start()
        for _ in range(int(tasks)):
            asking.acquire()
        return "waiting"

    def drop(self):
        if self.keeper:
            self.keeper.stop()
        held, self.held, self.keeper = self.held, [], None
        at_once(AT_A_TIME, held, self.library.unlock)
        return "dropped"


class Keeper(threading.Thread):
    """Renews the holds one after the other, at a third of the TTL."""

    def __init__(self, library, held, ttl):
        super().__init__(daemon=True)
        self.library, self.held, self.pause = library, held, ttl / 3000
        self.stopped = threading.Event()
        if type(library).renew is not Library.renew:
            self.start()

    def run(self):
        try:
            while not self.stopped.wait(self.pause):
                for hold in self.held:
                    if self.stopped.is_set():
                        return
                    self.library.renew(hold)
        except Exception as error:
            print(complaint(error), file=sys.stderr)

    def stop(self):
        self.stopped.set()
        if self.is_alive():
            self.join()


def at_once(threads, items, do):
    """Calls `do` for each item, in several threads, until a call fails."""
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(do, items):
            pass


def complaint(error):
    return " ".join(f"error {type(error).__name__}: {error}".split())


def serve(library):
    """Runs a subject until its input ends."""
    handshake = {
        "name": library.name,
        "library": ", ".join(f"{package} {version(package)}" for package in library.packages),
        "runtime": f"Python {platform.python_version()}",
        "backends": library.backends,
        "notes": library.notes,
    }
    print(json.dumps(handshake), flush=True)
    commands = queue.SimpleQueue()

    def read():
        for line in sys.stdin:
            commands.put(line)
        # The subject exits without releasing locks.
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    subject = Subject(library)
    while True:
        try:
            answer = subject.answer(commands.get())
        except Exception as error:
            answer = complaint(error)
        print(answer, flush=True)
