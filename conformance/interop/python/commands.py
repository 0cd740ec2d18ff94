"""Answers the commands that `src/peer.rs` describes."""

import sys
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread


def answer(actions: dict[str, Callable[..., str]], at_end: Callable[[], None]) -> None:
    """Answers each line of the input in a thread, and calls `at_end` when the input ends."""
    commands: SimpleQueue[str] = SimpleQueue()

    def serve() -> None:
        while True:
            name, *arguments = commands.get().split()
            print(actions[name](*arguments), flush=True)

    Thread(target=serve, daemon=True).start()
    for line in sys.stdin:
        commands.put(line)
    at_end()
