"""A writer that is killed at each of its durable steps: `python -m tests.log.crashing <folder>`.

One process forks a child per step. Each child works in a folder of its own and kills itself right before the
step that is its turn, or in the middle of it where it writes bytes; `acknowledged` tells what it had been
promised by then.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

from braid.log import CompactionConfig, Log, durable, write_file
from tests.log.samples import SCHEMA, rows

WIDER = SCHEMA.append(pa.field("extra", pa.int8()))
EAGER = CompactionConfig(min_age=0, keep_commits=0, min_commits=2, fanout=0)
"""Compacts whenever it can."""
STEPS = ("write", "sync", "link", "replace", "remove")
"""The functions of `durable`."""


def table(number: int) -> pa.Table:
    """The rows of a commit."""
    return rows(40, seed=number)


def arriving(number: int, pulse: Callable[[], None]) -> Iterator[pa.RecordBatch]:
    """The rows of a commit, little by little."""
    for batch in table(number).to_batches(max_chunksize=15):
        pulse()
        yield batch


def work(root: Path, acknowledge: Callable[[str], None], pulse: Callable[[], None] = lambda: None) -> None:
    """All that a writer does: create, write, publish, evolve, retain. Running it again changes nothing."""
    log = Log(root)
    category = log.create("c", SCHEMA, shards=2)
    acknowledge("created")
    for number in range(2):
        entry = write_file(category, "t", arriving(number, pulse), 15)
        category.publish(number, [entry], wall_time=number)
        acknowledge(f"commit {number}")
    category = log.create("c", WIDER, shards=2)
    acknowledge("evolved")
    category.publish(2, [write_file(category, "t", arriving(2, pulse))], wall_time=2)
    acknowledge("commit 2")
    category.retain(2, needed_from=1)
    acknowledge("retained")


def compacting(
    root: Path, acknowledge: Callable[[str], None], pulse: Callable[[], None] = lambda: None
) -> None:
    """Publish, make segments of commits, and one of two segments, and remove that."""
    category = Log(root).create("c", SCHEMA, shards=2)
    for number in range(4):
        category.publish(number, [write_file(category, "t", table(number).to_batches())], wall_time=0)
        acknowledge(f"commit {number}")
        if number % 2:
            while category.compact(EAGER, now=1):
                pulse()
    category.retain(1, needed_from=4)
    category.publish(4, [])
    acknowledge("commit 4")


def trap(turn: int, torn: bool, taking: list[str]) -> Callable[[], None]:
    """Kill this process at its durable step number `turn`, or halfway through the bytes of that step.

    Names of steps are appended to `taking`. Returns a step that does nothing but count, for places between
    the durable ones.
    """
    taken = 0

    def wrap(name: str, real: Callable[..., None]) -> Callable[..., None]:
        def step(*arguments: str | bytes) -> None:
            nonlocal taken
            taking.append(name)
            if taken == turn:
                if torn and name == "write":
                    path, data = arguments
                    Path(str(path)).write_bytes(bytes(data)[: len(data) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            taken += 1
            real(*arguments)

        return step

    for name in STEPS:
        setattr(durable, name, wrap(name, getattr(durable, name)))
    return wrap("pulse", lambda: None)


def run(folder: Path, turn: int, torn: bool, what: Callable[..., None]) -> int:
    """Do the work in a child that is killed at a step; return the child's exit status."""
    folder.mkdir()
    child = os.fork()
    if child == 0:
        with (folder / "acknowledged").open("w", buffering=1) as promises:
            taking: list[str] = []
            pulse = trap(turn, torn, taking)
            what(folder / "log", lambda what: print(what, file=promises, flush=True), pulse)
            (folder / "steps").write_text("\n".join(taking))
            os._exit(0)
    return os.waitpid(child, 0)[1]


def main(folder: Path) -> None:
    table(0)  # makes Arrow load now what every child would load again
    for what in (work, compacting):
        turn = 0
        while run(folder / f"{what.__name__}-before-{turn:03d}", turn, False, what) != 0:
            turn += 1
        steps = (folder / f"{what.__name__}-before-{turn:03d}" / "steps").read_text().split("\n")
        for turn in [turn for turn, step in enumerate(steps) if step == "write"]:
            run(folder / f"{what.__name__}-within-{turn:03d}", turn, True, what)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
