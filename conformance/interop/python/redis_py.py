"""Drives redis-py's own lock, for tests with Lockwright. `src/peer.rs` describes the commands."""

import os
import sys

import commands
import redis
from redis.exceptions import LockNotOwnedError
from redis.lock import Lock


def main() -> None:
    client = redis.Redis(host="127.0.0.1", port=int(sys.argv[1]))
    locks: dict[str, Lock] = {}

    def attempt(name: str, seconds: str, limit: float | None) -> str:
        lock = Lock(client, name, timeout=float(seconds), sleep=0.01)
        if not lock.acquire(blocking=limit is not None, blocking_timeout=limit):
            return "no"
        locks[name] = lock
        return "yes"

    def owned(action, answer: str) -> str:
        try:
            action()
            return answer
        except LockNotOwnedError:
            return "not ours"

    actions = {
        "try": lambda name, seconds: attempt(name, seconds, None),
        "wait": lambda name, seconds, limit: attempt(name, seconds, float(limit)),
        "extend": lambda name, seconds: owned(lambda: locks[name].extend(float(seconds)), "extended"),
        "release": lambda name: owned(locks[name].release, "released"),
    }
    commands.answer(actions, at_end=lambda: os._exit(0))


if __name__ == "__main__":
    main()
