"""Drives redis-py's own lock, for tests with Lockwright.

The program answers each command with one line:

    try NAME SECONDS             one attempt, for a lock with this TTL: "yes" or "no"
    wait NAME SECONDS LIMIT      waits for at most LIMIT seconds: "yes" or "no"
    extend NAME SECONDS          "extended", or "not ours"
    release NAME                 "released", or "not ours"
"""

import sys

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

    for line in sys.stdin:
        match line.split():
            case ["try", name, seconds]:
                answer = attempt(name, seconds, None)
            case ["wait", name, seconds, limit]:
                answer = attempt(name, seconds, float(limit))
            case ["extend", name, seconds]:
                answer = owned(lambda: locks[name].extend(float(seconds)), "extended")
            case ["release", name]:
                answer = owned(locks[name].release, "released")
            case _:
                answer = f"no such command: {line!r}"
        print(answer, flush=True)


if __name__ == "__main__":
    main()
