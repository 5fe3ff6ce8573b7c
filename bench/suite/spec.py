"""What is joined: a workload's query and its settings, independent of any system. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
"""Durations and event times of workloads are whole milliseconds, which is what all systems can tell apart."""

PRIME = 1_000_000_007
"""The modulus of the checksum."""


@dataclass(frozen=True)
class Query:
    """A join of two streams with columns `id`, `t`, `key`, `payload` and `texts`.

    Parameters
    ----------
    type
        `inner`, `left` or `asof` (for each left row the last right row of the window, or none).
    lower, upper
        Milliseconds: `l.t + lower <= r.t <= l.t + upper`.
    left_delay, right_delay
        Milliseconds by which the watermarks of systems that need one follow the largest event time.
    texts
        Names of further text columns on both sides.
    """

    type: str
    lower: int
    upper: int
    left_delay: int
    right_delay: int
    texts: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of either side, in the order of the files."""
        return ("id", "t", "key", "payload", *self.texts)


@dataclass(frozen=True)
class Answer:
    """What a join gave: rows, rows with a match, and a checksum that does not depend on the order of rows.

    The checksum is the sum over rows of `(l.id + 1) * (r.id + 2, or 1 without a match) mod PRIME`.
    """

    rows: int
    matches: int
    checksum: int
