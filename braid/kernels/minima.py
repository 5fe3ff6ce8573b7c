"""Least values of rows, page by page: what is least of all, or below a limit, without a look at every row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from braid.core.times import MAX_TIME
from braid.kernels.arrays import Ints, Mask, extended, spans

PAGE = 256
"""Rows per page."""

Where = slice | Ints
"""Some rows, in any form that picks them from an array."""


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

    def below(self, limit: int, values: Ints, gone: Callable[[Where], Mask]) -> Ints:
        """Rows below a limit that have not gone, ascending; they are to go now.

        `values` are those of all rows, and `gone` tells which of some rows have gone.
        """
        pages = np.flatnonzero(self._least < limit)
        if not len(pages):
            return pages
        first, last = int(pages[0]), int(pages[-1])
        where: Where
        if 2 * len(pages) > last - first:
            # Nearly all pages in between: a slice of all of them is faster to look at.
            pages = np.arange(first, last + 1)
            where = slice(first * PAGE, min((last + 1) * PAGE, self._rows))
        else:
            where = self._rows_of(pages)
        found, out = values[where], gone(where)
        leaving = ~out & (found < limit)
        self._set(pages, found, out | leaving)
        if isinstance(where, slice):
            return np.flatnonzero(leaving) + first * PAGE
        return np.compress(leaving, where)

    def renew(self, pages: Ints, values: Ints, gone: Callable[[Where], Mask]) -> None:
        """Look again at ascending pages of which rows have gone."""
        rows = self._rows_of(pages)
        self._set(pages, values[rows], gone(rows))

    def _rows_of(self, pages: Ints) -> Ints:
        return spans(pages * PAGE, np.minimum((pages + 1) * PAGE, self._rows))

    def _set(self, pages: Ints, values: Ints, gone: Mask) -> None:
        # Only the last of all pages may be shorter than the others.
        found = np.where(gone, MAX_TIME, values)
        self._least[pages] = np.minimum.reduceat(found, np.arange(len(pages)) * PAGE)

    def least(self) -> int:
        """The least value of all pages; `MAX_TIME` if there is none."""
        return int(self._least.min(initial=MAX_TIME))
