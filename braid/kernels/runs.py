"""Sorted runs: the index of a join. Rows of a side, ordered by hash, found by binary search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

MAX_PAIRS = 1 << 21
"""Candidate pairs looked at together, so that a hot key costs time but never unbounded memory."""


@dataclass(frozen=True)
class Run:
    """Rows ordered by `key`, and in order of arrival where keys are equal.

    `key` is the hash of the join key, or the event time when there is no key; `row` is the row's number
    in its `BlockStore`.
    """

    key: Ints
    row: Ints

    def __len__(self) -> int:
        return len(self.key)

    def select(self, which: Mask | Ints) -> Run:
        """The rows that a mask or an ascending index picks."""
        return Run(self.key[which], self.row[which])


EMPTY = Run(np.empty(0, np.int64), np.empty(0, np.int64))


def merge(runs: Sequence[Run]) -> Run:
    """One run of several; rows with equal keys keep the order of the runs."""
    runs = [run for run in runs if len(run)]
    if len(runs) < 2:
        return runs[0] if runs else EMPTY
    key = np.concatenate([run.key for run in runs])
    # The stable sort finds the presorted runs and merges them: close to linear here.
    order = np.argsort(key, kind="stable")
    return Run(key[order], np.concatenate([run.row for run in runs])[order])


def shares_key(keys: Ints, some: Ints) -> bool:
    """Whether any of `some` is among `keys`, which ascend."""
    if not len(keys):
        return False
    place = np.searchsorted(keys, some)
    return bool(np.any(keys[np.minimum(place, len(keys) - 1)] == some))


def probe(run: Run, low: Ints, high: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Candidate pairs `(needle, position in run)` with `low[needle] <= run.key[position] <= high[needle]`.

    Pairs come in slices of about `MAX_PAIRS`. Pass the same array twice for an equality search.
    """
    if not len(run) or not len(low):
        return
    start = np.searchsorted(run.key, low, side="left")
    if high is low:
        # Most needles of an equality search miss; only the hits need their upper end.
        needle = np.flatnonzero(run.key[np.minimum(start, len(run) - 1)] == low)
        start = start[needle]
        count = _group_sizes(run.key, start)
    else:
        count = np.searchsorted(run.key, high, side="right") - start
        needle = np.flatnonzero(count > 0)
        start, count = start[needle], count[needle]
    yield from _expand(needle, start, count)


def _group_sizes(key: Ints, start: Ints) -> Ints:
    """Length of the group of equal keys that begins at each of `start`.

    Groups are short as a rule, so looking at the next few neighbours, which are in the same cache line,
    beats a second binary search; the few long groups get that search.
    """
    count = np.ones(len(start), np.int64)
    active = np.arange(len(start))
    for ahead in range(1, 5):
        index = start[active] + ahead
        same = index < len(key)
        same &= key[np.minimum(index, len(key) - 1)] == key[start[active]]
        active = active[same]
        if not len(active):
            return count
        count[active] += 1
    count[active] = np.searchsorted(key, key[start[active]], side="right") - start[active]
    return count


def _expand(needle: Ints, start: Ints, count: Ints) -> Iterator[tuple[Ints, Ints]]:
    if not len(needle):
        return
    end = np.cumsum(count)
    begin = 0
    while begin < len(needle):
        done = end[begin - 1] if begin else 0
        stop = max(begin + 1, int(np.searchsorted(end, done + MAX_PAIRS, side="right")))
        some = slice(begin, stop)
        total = int(end[stop - 1] - done)
        offset = start[some] - (end[some] - count[some] - done)
        yield (
            np.repeat(needle[some], count[some]),
            np.arange(total) + np.repeat(offset, count[some]),
        )
        begin = stop
