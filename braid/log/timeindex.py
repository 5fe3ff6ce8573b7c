"""Which chunks may hold rows of a time range: an index over commit records, extended as the log grows."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from braid.log.records import Commit

Ints = npt.NDArray[np.int64]


class TimeIndex:
    """Least and greatest event time of every chunk, for one time column."""

    def __init__(self, column: str) -> None:
        self._column = column
        self._next = 0
        self._entries: Ints = np.zeros((0, 4), np.int64)

    @property
    def next(self) -> int:
        """The first commit that is not indexed yet."""
        return self._next

    def extend(self, commits: Iterable[Commit]) -> None:
        """Index further commits, in order."""
        entries = []
        for commit in commits:
            for chunk in commit.chunks:
                times = chunk.times.get(self._column)
                if times is not None and times.min is not None and times.max is not None:
                    entries.append((commit.id, chunk.index, times.min, times.max))
            self._next = commit.id + 1
        self._entries = np.concatenate([self._entries, np.array(entries, np.int64).reshape(-1, 4)])

    def forget(self, first: int) -> None:
        """Drop commits before `first`."""
        self._next = max(self._next, first)
        if len(self._entries) and self._entries[0, 0] < first:
            self._entries = self._entries[np.searchsorted(self._entries[:, 0], first) :]

    def overlapping(self, until: tuple[int, int], low: int, high: int) -> list[tuple[int, int]]:
        """Commit and chunk numbers up to and including `until` whose times overlap `[low, high]`."""
        commit, chunk, least, greatest = self._entries.T
        early = (commit < until[0]) | ((commit == until[0]) & (chunk <= until[1]))
        found = self._entries[early & (least <= high) & (greatest >= low), :2]
        return [(int(c), int(k)) for c, k in found]
