"""Cadence: how seldom the stages of an application may run, so that a latency objective is still met.

A row waits for a micro-batch of the stage that reads its input, and then passes from stage to stage, each of
which starts as soon as there is something to read. So only inputs are paced: by what remains of the objective
when the micro-batches that follow are taken off. What decides are pure functions; clocks are passed in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from threading import Lock

from braid.core.times import SECOND
from braid.home.cadence import AT_ONCE, Cadence

PATIENCE = SECOND
_LOOKS = 40
"""How often a source looks at the log within the time of an objective."""
_LOOK = SECOND // 100, SECOND // 10
"""The shortest and the longest time between two looks."""
_SHARE = 0.9
"""What is planned for of an objective; the rest is for noticing commits, and for longer micro-batches."""
_LEAST = SECOND // 20
"""Intervals are multiples of this, so that they do not change with every micro-batch."""
_RECENT = 8
"""Micro-batches of a stage of which the longest counts."""
_QUIET = 10 * SECOND
"""How long there has been nothing to read when looks become fewer."""
_FEWER = 4
"""By how much: still ten within the time of an objective."""


def cadence(objective: int, feeds: Mapping[str, Sequence[str]], took: Mapping[str, Sequence[int]]) -> Cadence:
    """The longest interval by which an objective is met.

    Parameters
    ----------
    objective
        Most time, in microseconds, from when a row can be read to when its results can.
    feeds
        The stages, each with those that it reads from, which come before it.
    took
        How long recent micro-batches of each stage took, in microseconds; none of a stage that has not run.
    """
    usual = {stage: max(took.get(stage, ()), default=0) for stage in feeds}
    slowest = max((usual[one] for before in feeds.values() for one in before), default=0)
    grace = min(objective // 8, slowest // 2)
    along: dict[str, int] = {}
    for stage, before in feeds.items():
        waiting = grace if len(before) > 1 else 0
        along[stage] = usual[stage] + waiting + max((along[one] for one in before), default=0)
    left = round(objective * _SHARE) - max(along.values(), default=0)
    return Cadence(
        interval=max(0, left // _LEAST * _LEAST),
        grace=grace,
        look=min(max(objective // _LOOKS, _LOOK[0]), _LOOK[1]),
        patience=PATIENCE,
    )


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
    interval = cadence.interval
    return Due.NOW if not interval or now // interval != last // interval else Due.LATER


def operator_due(fresh: Sequence[bool], now: int, since: int, cadence: Cadence) -> Due:
    """Whether an operator takes a step; `since` is when it first had something to read of an input."""
    if not any(fresh):
        return Due.NOTHING
    return Due.NOW if all(fresh) or now - since >= cadence.grace else Due.LATER


def until_next_look(quiet: int, cadence: Cadence) -> int:
    """How long a source waits until it looks again, when there has been nothing to read for so long."""
    return cadence.look * (_FEWER if quiet >= _QUIET else 1)


@dataclass
class Cadences:
    """Keeps the file by which sources learn how often to run.

    Parameters
    ----------
    path
        The file.
    objective, feeds
        As for `cadence`.
    """

    path: Path
    objective: int
    feeds: Mapping[str, Sequence[str]]
    _took: dict[str, deque[int]] = field(default_factory=dict)
    _hurried: int = 0
    _told: Cadence | None = None
    _lock: Lock = field(default_factory=Lock)

    def tell(self) -> None:
        """Write the file if something has changed."""
        with self._lock:
            now = AT_ONCE if self._hurried else cadence(self.objective, self.feeds, self._took)
            if now != self._told:
                now.write(self.path)
                self._told = now

    def took(self, stage: str, phases: Mapping[str, float]) -> None:
        """Note how long a micro-batch of a stage took, by Spark's phases of it in milliseconds.

        What its source has waited for, before it began, is not counted.
        """
        millis = phases.get("triggerExecution", 0) - phases.get("latestOffset", 0)
        with self._lock:
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
