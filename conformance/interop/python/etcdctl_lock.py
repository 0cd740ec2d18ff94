"""Drives `etcdctl lock`, for tests with Lockwright.

    etcdctl_lock.py TTL ENDPOINT,...

`src/peer.rs` describes the commands, of which `try` is missing. A name is the prefix of the lock's
keys, without the final slash. Each lock has its own `etcdctl` process, with a lease of TTL seconds.
When the input ends, the program kills its process group, so it needs its own group.
"""

import os
import signal
import subprocess
import sys

import commands


def main() -> None:
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
        # `etcdctl` prints the lock's key once it holds the lock.
        if not holder.stdout.readline().startswith(f"{name}/"):
            return "no"
        holders[name] = holder
        return "yes"

    def release(name: str) -> str:
        # SIGTERM releases the lock. If the lock's lease has ended, `etcdctl` exits with an error.
        holder = holders.pop(name)
        holder.terminate()
        return "released" if holder.wait() == 0 else "not ours"

    # At the end, kill the process group: this program and all its `etcdctl` processes.
    actions = {"wait": wait, "release": release}
    commands.answer(actions, at_end=lambda: os.killpg(0, signal.SIGKILL))


if __name__ == "__main__":
    main()
