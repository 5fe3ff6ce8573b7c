"""Writers in processes of their own.

`python -m tests.stores.lookup.writing serve HOME` writes a batch per line of its input and says so.
`python -m tests.stores.lookup.writing write HOME BATCHES` writes many.
`python -m tests.stores.lookup.writing crash HOME` forks a writer per step of a write, which dies there.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from braid.stores.lookup import LookupStore
from braid.stores.lookup.database import Database
from braid.stores.lookup.settings import Settings
from tests.stores.lookup.samples import create, users

KEYS = 500
STEPS = ("begin", "stored", "flushed", "published")
"""What a writer has done of its last batch when it dies."""


def write(home: Path, number: int) -> None:
    """A batch that writes every key."""
    with LookupStore(home).open("users") as table:
        table.upsert(users(list(range(KEYS)), number), writer="w", batch_id=number, now_us=0)


def serve(home: Path) -> None:
    with LookupStore(home).open("users") as table:
        for line in sys.stdin:
            number = int(line)
            table.upsert(users(list(range(KEYS)), number), writer="w", batch_id=number, now_us=0)
            print(number, flush=True)


def write_many(home: Path, batches: int) -> None:
    for start in range(0, batches, 20):
        with LookupStore(home).open("users") as table:
            for number in range(start, min(start + 20, batches)):
                table.upsert(users(list(range(KEYS)), number), writer="w", batch_id=number, now_us=0)


def die(*arguments: object) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def trap(step: str) -> None:
    """Make this process die at a step of its next write."""

    def then_die(real: Callable[..., None]) -> Callable[..., None]:
        def run(*arguments: object) -> None:
            real(*arguments)
            die()

        return run

    if step == "begin":
        Database._write = die  # type: ignore[method-assign]
    elif step == "stored":
        Database._flush = die  # type: ignore[method-assign]
    elif step == "flushed":
        Settings.save = die  # type: ignore[method-assign]
    else:
        Settings.save = then_die(Settings.save)  # type: ignore[method-assign]


def crash(parent: Path) -> None:
    for step in STEPS:
        child = os.fork()
        if child == 0:
            create(parent / step).close()
            write(parent / step, 0)
            with LookupStore(parent / step).open("users") as table:
                table.upsert(users(list(range(KEYS)), 1), writer="w", batch_id=1, now_us=0)
                trap(step)
                table.upsert(users(list(range(KEYS)), 2), writer="w", batch_id=2, now_us=0)
            os._exit(0)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL


if __name__ == "__main__":
    what, folder = sys.argv[1], Path(sys.argv[2])
    if what == "serve":
        serve(folder)
    elif what == "write":
        write_many(folder, int(sys.argv[3]))
    else:
        crash(folder)
