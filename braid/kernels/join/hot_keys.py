"""Hot keys: large groups of equal hash in order of time, to look only at the rows within bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from braid.kernels.arrays import Ints

HOT_ROWS = 16
"""Rows of equal hash from which on a group is hot; all pairs with smaller groups are looked at."""
EASY = 4
"""Candidate pairs per row that are looked at rather than sorting the rows by time."""


class Near(NamedTuple):
    """The time bounds of an equality search.

    Needle `i` can match the event times `[time[i] + lower, time[i] + upper]`; `times` are those of the
    rows that are searched, by row number from `first` on.
    """

    time: Ints
    lower: int
    upper: int
    times: Ints
    first: int = 0


class TimeOrder(NamedTuple):
    """The rows of a run's hot groups, by group and time.

    `start` is where each group begins in the run, `position` where each row is in the run. `moment` are
    the times of all groups, ascending, and `code` is group * (rows + 1) + rank of the time: ranks, since
    times themselves would not fit an int64 beside the group.
    """

    start: Ints
    moment: Ints
    code: Ints
    position: Ints

    def find(self, start: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints]:
        """Begin and end, in this order, of the rows within `[low, high]` of the groups at `start`."""
        base = np.searchsorted(self.start, start) * (len(self.moment) + 1)
        begin = base + np.searchsorted(self.moment, low, side="left")
        end = base + np.searchsorted(self.moment, high, side="right")
        return np.searchsorted(self.code, begin), np.searchsorted(self.code, end)


class HotGroups:
    """The order of a run, once enough pairs were looked at to pay for making it."""

    def __init__(self) -> None:
        self._spent = 0
        self._order: TimeOrder | None = None

    def order(self, key: Ints, row: Ints, near: Near, candidates: int) -> TimeOrder | None:
        """The order of the run `(key, row)`; None as long as looking at the candidates is cheaper."""
        if self._order is None:
            self._spent += candidates
            if self._spent > EASY * len(key):
                self._order = order_groups(key, row, near)
        return self._order


def order_groups(key: Ints, row: Ints, near: Near) -> TimeOrder:
    """Order the rows of groups of at least `HOT_ROWS` equal keys."""
    start = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    size = np.diff(np.append(start, len(key)))
    start, size = start[size >= HOT_ROWS], size[size >= HOT_ROWS]
    end = np.cumsum(size)
    position = np.arange(int(size.sum())) + np.repeat(start - (end - size), size)
    # The smallest type that fits: the stable sort of small integers is a radix sort.
    group = np.repeat(np.arange(len(start)).astype(np.min_scalar_type(len(start))), size)
    time = near.times[row[position] - near.first]
    by_time = np.argsort(time, kind="stable")
    rank = np.argsort(group[by_time], kind="stable")
    order = by_time[rank]
    code = group[order].astype(np.int64) * (len(order) + 1) + rank
    return TimeOrder(start, time[by_time], code, position[order])
