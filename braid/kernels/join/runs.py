"""Sorted runs: the index of a join. Rows of a side, ordered by hash, found by binary search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from braid.kernels.arrays import Ints, Mask
from braid.kernels.join import hot_keys as hot

MAX_PAIRS = 1 << 21
"""Candidate pairs looked at together, so that many matches cost time but never unbounded memory."""
LARGE = 4
TIER = 16
"""How many times as long as the second run the first one is at least, and every other one than the next."""


@dataclass(frozen=True)
class Run:
    """Rows ordered by `key`, and in order of arrival where keys are equal.

    `key` is the hash of the join key, or the event time when there is no key; `row` is the row's number
    in its `BlockStore`.
    """

    key: Ints
    row: Ints
    hot: hot.HotGroups = field(default_factory=hot.HotGroups, init=False, repr=False, compare=False)
    """Cache of searches for large groups of equal keys."""

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


def add_run(runs: list[Run], run: Run) -> None:
    """Add a run to those of an index: each is much longer than the next, so that they are few.

    A row is moved a bounded number of times on each of these tiers, whatever the size of what is added.
    """
    if len(run):
        first, size = len(runs), len(run)
        while first and size * (LARGE if first == 1 else TIER) > len(runs[first - 1]):
            first -= 1
            size += len(runs[first])
        runs[first:] = [merge([*runs[first:], run])]


def shares_key(keys: Ints, some: Ints) -> bool:
    """Whether any of `some` is among `keys`, which ascend."""
    if not len(keys):
        return False
    place = np.searchsorted(keys, some)
    return bool(np.any(keys[np.minimum(place, len(keys) - 1)] == some))


def probe(run: Run, low: Ints, high: Ints, near: hot.Near | None = None) -> Iterator[tuple[Ints, Ints]]:
    """Candidate pairs `(needle, position in run)` with `low[needle] <= run.key[position] <= high[needle]`.

    Pairs ascend, and come in slices of about `MAX_PAIRS`. Pass the same array twice for an equality
    search; with `near`, pairs out of its bounds may be left out, and are if there are many.
    """
    if not len(run) or not len(low):
        return
    start = np.searchsorted(run.key, low, side="left")
    if high is low:
        # Most needles of an equality search miss; only the hits need their upper end.
        needle = np.flatnonzero(run.key[np.minimum(start, len(run) - 1)] == low)
        start = start[needle]
        count = _group_sizes(run.key, start)
        candidates = int(count.sum())
        if near is not None and candidates > hot.EASY * len(low):
            order = run.hot.order(run.key, run.row, near, candidates)
            if order is not None:
                yield from _expand_near(run, near, order, needle, start, count)
                return
    else:
        count = np.searchsorted(run.key, high, side="right") - start
        needle = np.flatnonzero(count > 0)
        start, count = start[needle], count[needle]
    yield from _expand(needle, start, count)


def _expand_near(
    run: Run, near: hot.Near, order: hot.TimeOrder, needle: Ints, start: Ints, count: Ints
) -> Iterator[tuple[Ints, Ints]]:
    """The same pairs in the same order, but of hot groups only those within bounds, if these are few."""
    large = np.flatnonzero(count >= hot.HOT_ROWS)
    time = near.time[needle[large]]
    begin, end = order.find(start[large], time + near.lower, time + near.upper)
    few = (end - begin) * 2 < count[large]
    # Positions from len(run) on stand for places in the order by time.
    start[large[few]] = len(run) + begin[few]
    count[large[few]] = (end - begin)[few]
    some = count > 0
    for mine, place in _expand(needle[some], start[some], count[some]):
        other = np.flatnonzero(place >= len(run))
        place[other] = order.position[place[other] - len(run)]
        base = mine * len(run)
        pair = base + place
        if np.any(pair[1:] < pair[:-1]):
            pair.sort()
            place = pair - base
        yield mine, place


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
