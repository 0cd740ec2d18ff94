"""Drives `etcdctl lock`, for tests of how it and Lockwright exclude each other.

    etcdctl_lock.py TTL ENDPOINT,...

Must have a process group of its own. Reads one command per line and answers one line to each:

    wait NAME                    waits for as long as it takes: "yes", or "no" when its lease ends
    release NAME                 "released", or "not ours" when its lease has ended

NAME is the whole prefix of the lock's keys, without the slash at its end. Each is locked by an
`etcdctl` of its own, with a lease of TTL whole seconds. Ends with its input, whatever it does then, and
they with it.
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
    # All of them, and this one.
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
        # Once it has the lock it says by which key.
        if not holder.stdout.readline().startswith(f"{name}/"):
            return "no"
        holders[name] = holder
        return "yes"

    def release(name: str) -> str:
        # That is how its user does it. It ends by itself, with an error, when its lease has ended.
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
