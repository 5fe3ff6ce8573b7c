"""Cadence: how seldom the stages of an application may run, so that a latency objective is still met.

A row waits for a micro-batch of the stage that reads its input, and then passes from stage to stage, each of
which starts as soon as there is something to read. So only inputs are paced: by what remains of the objective
when the micro-batches that follow are taken off. What decides are pure functions; clocks are passed in.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from threading import Lock

import xxhash

from braid.core.times import SECOND
from braid.home.cadence import AT_ONCE, Cadence

PATIENCE = SECOND
_LOOKS = 40
"""How often a source looks at the log within the time of an objective."""
_LOOK = SECOND // 100, SECOND // 4
"""The shortest and the longest time between two looks."""
_SHARE = 0.9
"""What is planned for of an objective; the rest is for noticing commits, and for longer micro-batches."""
_FLOOR = 5
"""How often inputs are read at most within the time of an objective. Where a machine has too much to do to
meet it, running ever more often would only add to that."""
_LEAST = SECOND // 20
"""Intervals are multiples of this, so that they do not change with every micro-batch."""
_RECENT = 8
"""Micro-batches of a stage of which the longest counts."""
_FIRST = 2
"""Micro-batches at the beginning of a run that do not count: processes start, and code is loaded."""
QUIET = 10 * SECOND
"""How long there has been nothing to read when looks become fewer."""
_FEWER = 4
"""By how much: still ten within the time of an objective."""


def cadence(
    objective: int, feeds: Mapping[str, Sequence[str]], took: Mapping[str, Sequence[int]], share: float = 0.0
) -> Cadence:
    """The longest interval by which an objective is met.

    Parameters
    ----------
    objective
        Most time, in microseconds, from when a row can be read to when its results can.
    feeds
        The stages, each with those that it reads from, which come before it.
    took
        How long recent micro-batches of each stage took, in microseconds; none of a stage that has not run.
    share
        In which part of the interval inputs are read, from 0 to 1.
    """
    usual = {stage: max(took.get(stage, ()), default=0) for stage in feeds}
    slowest = max((usual[one] for before in feeds.values() for one in before), default=0)
    grace = min(objective // 8, slowest // 2)
    along: dict[str, int] = {}
    for stage, before in feeds.items():
        waiting = grace if len(before) > 1 else 0
        along[stage] = usual[stage] + waiting + max((along[one] for one in before), default=0)
    left = round(objective * _SHARE) - max(along.values(), default=0)
    interval = max(left, objective // _FLOOR) // _LEAST * _LEAST
    return Cadence(
        interval=interval,
        phase=int(interval * share),
        grace=grace,
        look=min(max(objective // _LOOKS, _LOOK[0]), _LOOK[1]),
        patience=PATIENCE,
    )


def share_of(application: str) -> float:
    """In which part of its interval an application reads its inputs: by its name, so that they are spread."""
    return xxhash.xxh64_intdigest(application.encode()) / 2**64


class Due(Enum):
    """Whether a source starts a micro-batch now."""

    NOW = auto()
    LATER = auto()
    """There is something to read, and it can wait."""
    NOTHING = auto()
    """There is nothing new."""


def input_due(fresh: bool, now: int, last: int, cadence: Cadence) -> Due:
    """Whether to read an input of the application; `last` is when its last micro-batch began."""
    if not fresh:
        return Due.NOTHING
    interval, phase = cadence.interval, cadence.phase
    if not interval or (now - phase) // interval != (last - phase) // interval:
        return Due.NOW
    return Due.LATER


def operator_due(fresh: Sequence[bool], now: int, since: int, cadence: Cadence) -> Due:
    """Whether an operator takes a step; `since` is when it first had something to read of an input."""
    if not any(fresh):
        return Due.NOTHING
    return Due.NOW if all(fresh) or now - since >= cadence.grace else Due.LATER


def until_due(now: int, cadence: Cadence) -> int:
    """How long it takes until inputs are read, as long as they are not read back to back."""
    return cadence.interval - (now - cadence.phase) % cadence.interval


def until_next_look(quiet: int, cadence: Cadence) -> int:
    """How long a source waits until it looks again, when there has been nothing to read for so long."""
    return cadence.look * (_FEWER if quiet >= QUIET else 1)


@dataclass
class Cadences:
    """Keeps the file by which sources learn how often to run.

    Parameters
    ----------
    path
        The file.
    objective, feeds, share
        As for `cadence`.
    """

    path: Path
    objective: int
    feeds: Mapping[str, Sequence[str]]
    share: float = 0.0
    _took: dict[str, deque[int]] = field(default_factory=dict)
    _seen: Counter[str] = field(default_factory=Counter)
    _hurried: int = 0
    _told: Cadence | None = None
    _lock: Lock = field(default_factory=Lock)

    def tell(self) -> None:
        """Write the file if something has changed."""
        with self._lock:
            now = AT_ONCE if self._hurried else self._cadence()
            if now != self._told:
                now.write(self.path)
                self._told = now

    def _cadence(self) -> Cadence:
        return cadence(self.objective, self.feeds, self._took, self.share)

    def took(self, stage: str, phases: Mapping[str, float]) -> None:
        """Note how long a micro-batch of a stage took, by Spark's phases of it in milliseconds.

        What its source has waited for, before it began, is not counted.
        """
        millis = phases.get("triggerExecution", 0) - phases.get("latestOffset", 0)
        with self._lock:
            self._seen[stage] += 1
            if self._seen[stage] > _FIRST:
                self._took.setdefault(stage, deque(maxlen=_RECENT)).append(round(millis * 1000))

    @contextmanager
    def hurried(self) -> Iterator[None]:
        """Let nothing wait meanwhile."""
        self._hurry(1)
        try:
            yield
        finally:
            self._hurry(-1)

    def _hurry(self, by: int) -> None:
        with self._lock:
            self._hurried += by
        self.tell()
