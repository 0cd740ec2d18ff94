"""Drives `etcdctl lock`, for tests with Lockwright.

    etcdctl_lock.py TTL ENDPOINT,...

The program answers each command with one line:

    wait NAME                    waits for as long as it takes: "yes", or "no" when its lease ends
    release NAME                 "released", or "not ours" when its lease has ended

NAME is the prefix of the lock's keys, without the final slash. Each lock has its own `etcdctl`
process, with a lease of TTL seconds. When the input ends, the program kills its process group, so
it must have its own.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from queue import SimpleQueue
from threading import Thread


def main() -> None:
    commands: SimpleQueue[str] = SimpleQueue()
    Thread(target=serve, args=(iter(commands.get, None),), daemon=True).start()
    for line in sys.stdin:
        commands.put(line)
    # The process group is this program and all its `etcdctl` processes.
    os.killpg(0, signal.SIGKILL)


def serve(commands: Iterable[str]) -> None:
    ttl, endpoints = sys.argv[1:]
    holders: dict[str, subprocess.Popen[str]] = {}

    def wait(name: str) -> str:
        holder = subprocess.Popen(
            ["etcdctl", f"--endpoints={endpoints}", "lock", f"--ttl={ttl}", name],
            env=os.environ | {"ETCDCTL_API": "3"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        # `etcdctl` prints its key when it holds the lock.
        if not holder.stdout.readline().startswith(f"{name}/"):
            return "no"
        holders[name] = holder
        return "yes"

    def release(name: str) -> str:
        # SIGTERM releases the lock. If the lock's lease has ended, `etcdctl` exits with an error.
        holder = holders.pop(name)
        holder.terminate()
        return "released" if holder.wait() == 0 else "not ours"

    for line in commands:
        match line.split():
            case ["wait", name]:
                answer = wait(name)
            case ["release", name]:
                answer = release(name)
            case _:
                answer = f"no such command: {line!r}"
        print(answer, flush=True)


if __name__ == "__main__":
    main()
