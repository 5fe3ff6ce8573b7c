"""Least values of rows, page by page: what is least of all, or below a limit, without a look at every row."""

from __future__ import annotations

import numpy as np

from braid.core.times import MAX_TIME
from braid.kernels.arrays import Ints, Mask, extended, spans

PAGE = 256
"""Rows per page."""


class Minima:
    """The least value of each page of row numbers, or less: rows may have gone since a page was looked at."""

    def __init__(self) -> None:
        self._least: Ints = np.zeros(0, np.int64)
        self._rows = 0

    def extend(self, values: Ints) -> None:
        """Take in the values of further rows."""
        head = min(-self._rows % PAGE, len(values))
        if head:
            self._least[-1] = min(int(self._least[-1]), int(values[:head].min()))
        if len(values) > head:
            fresh = np.minimum.reduceat(values[head:], np.arange(0, len(values) - head, PAGE))
            self._least = extended(self._least, [fresh])
        self._rows += len(values)

    def lower(self, rows: Ints, values: Ints) -> None:
        """Take the values of some rows in that were not there before."""
        np.minimum.at(self._least, rows // PAGE, values)

    def below(self, limit: int) -> Ints:
        """Pages that may have rows below a limit."""
        return np.flatnonzero(self._least < limit)

    def rows_of(self, pages: Ints) -> Ints:
        """Row numbers of ascending pages."""
        return spans(pages * PAGE, np.minimum((pages + 1) * PAGE, self._rows))

    def renew(self, pages: Ints, rows: Ints, values: Ints, gone: Mask) -> None:
        """Look at pages again: `rows` are theirs, with values, and whether each has gone."""
        if len(pages):
            found = np.where(gone, MAX_TIME, values)
            self._least[pages] = np.minimum.reduceat(found, np.searchsorted(rows, pages * PAGE))

    def least(self) -> int:
        """The least value of all pages; `MAX_TIME` if there is none."""
        return int(self._least.min(initial=MAX_TIME))
