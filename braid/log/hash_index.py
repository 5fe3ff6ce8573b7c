"""The index of a segment: its rows by hash and event time, in pages that are searched one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from braid.core.columns import HASH, TIME
from braid.log.layout import shard_boundaries
from braid.log.segments import INDEX_PAGE

PAGE_ROWS = 1 << 16
"""Most rows of a page, which is what is verified, and mapped, for one search."""
SORT_ROWS = 1 << 18
"""Rows sorted at once when indexes are merged, roughly: bounds memory, however large the segment is."""

Ints = npt.NDArray[np.int64]


def is_indexed(schema: pa.Schema) -> bool:
    """Whether rows of a category can be looked up by hash and event time."""
    return HASH in schema.names and TIME in schema.names and schema.field(TIME).type == pa.int64()


class Entries(NamedTuple):
    """Rows of an index: hash, event time, line in the table of chunks, and row in the chunk."""

    hash: Ints
    time: Ints
    chunk: Ints
    row: Ints

    def select(self, which: npt.NDArray[np.bool_] | Ints | slice) -> Entries:
        """The entries that a mask, an index or a slice picks."""
        return Entries(*(values[which] for values in self))

    def shifted(self, chunks: int) -> Entries:
        """The entries of a table of chunks that has `chunks` more lines before them."""
        return self._replace(chunk=self.chunk + chunks)

    @classmethod
    def of_page(cls, page: pa.RecordBatch) -> Entries:
        """The entries of a stored page, without a copy."""
        return cls(*(column.to_numpy() for column in page.columns))

    @classmethod
    def of_chunk(cls, blocks: Sequence[pa.RecordBatch], chunk: int) -> Entries:
        """The rows with an event time of a chunk, which is given by its blocks."""
        found, start = [NO_ENTRIES], 0
        for rows in blocks:
            if TIME in rows.schema.names:
                time = rows.column(TIME)
                entries = cls(
                    rows.column(HASH).to_numpy(),
                    time.fill_null(0).to_numpy(),
                    np.full(rows.num_rows, chunk),
                    np.arange(start, start + rows.num_rows),
                )
                found.append(entries.select(time.is_valid().to_numpy(zero_copy_only=False)))
            start += rows.num_rows
        return concat(found)


NO_ENTRIES = Entries(*(np.empty(0, np.int64) for _ in range(4)))


def concat(parts: Sequence[Entries]) -> Entries:
    """All entries of several parts."""
    return Entries(*(np.concatenate(values) for values in zip(*parts, strict=True)))


def pages(parts: Sequence[Sequence[Entries]]) -> Iterator[pa.RecordBatch]:
    """The pages of one index, of several whose own pages are sorted: range by range of hashes."""
    rows = sum(len(page.hash) for pages in parts for page in pages)
    edges = shard_boundaries(max(1, min(4096, rows // SORT_ROWS)))[1:]
    for low, high in zip([None, *edges], [*edges, None], strict=True):
        some = [
            page.select(
                slice(
                    None if low is None else int(np.searchsorted(page.hash, low)),
                    None if high is None else int(np.searchsorted(page.hash, high)),
                )
            )
            for pages in parts
            for page in pages
        ]
        found = concat([NO_ENTRIES, *some])
        found = found.select(np.lexsort((found.time, found.hash)))
        for start in range(0, len(found.hash), PAGE_ROWS):
            page = found.select(slice(start, start + PAGE_ROWS))
            arrays = [pa.array(v, field.type) for v, field in zip(page, INDEX_PAGE, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=INDEX_PAGE)


def search(page: Entries, hashes: Ints, low: Ints, high: Ints) -> Ints:
    """Positions in a page, ascending, of entries with one of `hashes` and a time within its `[low, high]`."""
    start = np.searchsorted(page.hash, hashes, side="left")
    end = np.searchsorted(page.hash, hashes, side="right")
    some = end > start
    if not some.any():
        return np.empty(0, np.int64)
    start, end, low, high = start[some], end[some], low[some], high[some]
    start = _bisect(page.time, start, end, low, after=False)
    end = _bisect(page.time, start, end, high, after=True)
    # Many needles may have one hash; an entry that several of them find is found once.
    depth = np.bincount(start, minlength=len(page.hash) + 1) - np.bincount(end, minlength=len(page.hash) + 1)
    return np.flatnonzero(np.cumsum(depth)[:-1])


def _bisect(values: Ints, start: Ints, end: Ints, target: Ints, *, after: bool) -> Ints:
    """Where each `target` belongs in its ascending `[start, end)`: before its equals, or `after` them."""
    while np.any(start < end):
        middle = (start + end) // 2
        value = values[np.minimum(middle, len(values) - 1)]
        up = (start < end) & ((value <= target) if after else (value < target))
        end = np.where(up, end, middle)
        start = np.where(up, middle + 1, start)
    return start
