"""Drives kazoo's own lock, for tests with Lockwright.

    kazoo_lock.py TTL HOST:PORT,...

The program has one session, with a timeout of TTL seconds. `src/peer.rs` describes the commands. A
name is the path of the lock's parent node. "not ours" means that a session has ended since the grant.
"""

import os
import sys

import commands
from kazoo.client import KazooClient, KazooState
from kazoo.recipe.lock import Lock

# kazoo recognizes the lock nodes of Lockwright and Curator by this part of their names.
OTHERS = ["-lock-"]


def main() -> None:
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

    actions = {
        "try": lambda name: attempt(name, blocking=False),
        "wait": lambda name: attempt(name, blocking=True),
        "release": release,
    }
    commands.answer(actions, at_end=lambda: os._exit(0))


if __name__ == "__main__":
    main()
