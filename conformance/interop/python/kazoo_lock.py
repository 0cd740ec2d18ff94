"""Drives kazoo's own lock, for tests with Lockwright.

    kazoo_lock.py TTL HOST:PORT,...

The program has one session, with a timeout of TTL seconds. It answers each command with one line:

    try NAME                     one attempt: "yes" or "no"
    wait NAME                    waits for as long as it takes: "yes"
    release NAME                 "released", or "not ours" when a session has ended since the grant

NAME is the path of the lock's parent node.
"""

import os
import sys
from collections.abc import Iterable
from queue import SimpleQueue
from threading import Thread

from kazoo.client import KazooClient, KazooState
from kazoo.recipe.lock import Lock

# kazoo finds other clients' nodes by these parts of their names. Lockwright and Curator use this
# one.
OTHERS = ["-lock-"]


def main() -> None:
    commands: SimpleQueue[str] = SimpleQueue()
    Thread(target=serve, args=(iter(commands.get, None),), daemon=True).start()
    for line in sys.stdin:
        commands.put(line)
    os._exit(0)


def serve(commands: Iterable[str]) -> None:
    client = KazooClient(hosts=sys.argv[2], timeout=float(sys.argv[1]))
    locks: dict[str, Lock] = {}
    ended = False

    def watch(state: str) -> None:
        nonlocal ended
        ended = ended or state == KazooState.LOST

    client.start(timeout=20)
    client.add_listener(watch)

    def attempt(name: str, blocking: bool) -> str:
        lock = client.Lock(name, "kazoo", extra_lock_patterns=OTHERS)
        if not lock.acquire(blocking=blocking):
            return "no"
        nonlocal ended
        ended = False
        locks[name] = lock
        return "yes"

    def release(name: str) -> str:
        locks[name].release()
        return "not ours" if ended else "released"

    for line in commands:
        match line.split():
            case ["try", name]:
                answer = attempt(name, blocking=False)
            case ["wait", name]:
                answer = attempt(name, blocking=True)
            case ["release", name]:
                answer = release(name)
            case _:
                answer = f"no such command: {line!r}"
        print(answer, flush=True)


if __name__ == "__main__":
    main()
