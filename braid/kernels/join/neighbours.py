"""Neighbours in time: for each row, the last row of the other side before it and the first one after it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from braid.core.side import Side
from braid.kernels.arrays import Ints, Mask


@dataclass(frozen=True)
class Merged:
    """Rows of both sides in one order: by group, time, side, arrival.

    A *position* is an index into this order; `index` says which row of its side stands there. Groups are
    rows with equal keys. All searches are running maxima and minima over the order: no loops.
    """

    group: Ints
    time: Ints
    is_left: Mask
    index: Ints

    def __len__(self) -> int:
        return len(self.time)

    def of(self, side: Side) -> Mask:
        """Which positions hold rows of a side."""
        return self.is_left if side is Side.LEFT else ~self.is_left

    def before(self, side: Side, *, inclusive: bool) -> Ints:
        """For every position, that of the last row of `side` in its group before its time; -1 if none.

        Inclusive means at or before its time. Of rows with equal times, the one that arrived last counts.
        """
        latest = np.maximum.accumulate(np.where(self.of(side), np.arange(len(self)), -1))
        begin, end = self._ties
        found = latest[end] if inclusive else np.where(begin > 0, latest[begin - 1], -1)
        return np.where(found >= self._groups[0], found, -1)

    def after(self, side: Side, *, inclusive: bool) -> Ints:
        """For every position, that of the first row of `side` in its group after its time; -1 if none.

        Inclusive means at or after its time. Of rows with equal times, the one that arrived first counts.
        """
        size = len(self)
        coming = np.minimum.accumulate(np.where(self.of(side), np.arange(size), size)[::-1])[::-1]
        coming = np.append(coming, size)
        begin, end = self._ties
        found = coming[begin] if inclusive else coming[end + 1]
        return np.where(found <= self._groups[1], found, -1)

    @cached_property
    def _groups(self) -> tuple[Ints, Ints]:
        return _spans(self.group[1:] != self.group[:-1])

    @cached_property
    def _ties(self) -> tuple[Ints, Ints]:
        return _spans((self.group[1:] != self.group[:-1]) | (self.time[1:] != self.time[:-1]))


def merge_sides(left_group: Ints, left_time: Ints, right_group: Ints, right_time: Ints) -> Merged:
    """Put rows of two sides, each given in order of arrival, into one order."""
    group = np.concatenate([left_group, right_group])
    time = np.concatenate([left_time, right_time])
    order = np.lexsort((time, group))
    index = np.concatenate([np.arange(len(left_time)), np.arange(len(right_time))])
    return Merged(group[order], time[order], order < len(left_time), index[order])


def _spans(change: Mask) -> tuple[Ints, Ints]:
    """First and last position of the span around each position, given where spans change."""
    size = len(change) + 1
    position = np.arange(size)
    first = np.maximum.accumulate(np.where(np.append(True, change), position, 0))
    last = np.minimum.accumulate(np.where(np.append(change, True), position, size)[::-1])[::-1]
    return first, last
