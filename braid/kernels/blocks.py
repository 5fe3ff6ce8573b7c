"""Blocks as the kernels see them: where they come from, and a set of them addressed by row number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from braid.core.positions import Position
from braid.kernels.arrays import Ints

DENSE = 64
"""Rows per block from which on ascending rows are taken block by block."""


class BlockSource(Protocol):
    """What the kernels need of the log, for one shard: blocks of each input by its name."""

    def schema(self, name: str) -> pa.Schema:
        """Columns of an input, also when it has no blocks yet."""

    def read(self, name: str, block: Position) -> pa.RecordBatch:
        """The shard's rows of a block, sorted by `__hash` and in order of arrival where hashes are equal."""

    def overlapping(self, name: str, until: Position, low: int, high: int) -> Sequence[Position]:
        """Blocks up to and including `until` that may hold event times within `[low, high]`, ascending."""

    def find(
        self, name: str, until: Position, hashes: Ints, low: Ints, high: Ints
    ) -> Iterable[tuple[Position, Ints | None]]:
        """Blocks up to and including `until` that may hold partners, ascending, and the rows in question.

        Asked for are rows with one of `hashes`, which ascend, at an event time within its `[low, high]`. With
        a block come the ascending numbers of its rows that may be such rows, or None if that may be all.
        """

    def arrived(self, name: str, block: Position) -> int:
        """Wall-clock time at which a block was published, in microseconds."""

    def forgotten(self, name: str) -> int:
        """Largest event time that retention has removed; `MIN_TIME` if it has removed nothing."""


class BlockStore:
    """Blocks in memory (or mapped), whose rows are numbered through in order of arrival."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self.ids: list[Position] = []
        self._index: dict[Position, int] = {}
        self._columns: dict[str, list[pa.Array]] = {}
        self._batches: list[pa.RecordBatch] = []
        self.starts: Ints = np.zeros(1, np.int64)

    @property
    def rows(self) -> int:
        """Rows in all blocks."""
        return int(self.starts[-1])

    def append(self, block: Position, batch: pa.RecordBatch) -> int:
        """Add a block; its first row gets the returned number."""
        start = self.rows
        self._index[block] = len(self.ids)
        self.ids.append(block)
        self._batches.append(batch)
        for name, arrays in self._columns.items():
            arrays.append(batch.column(name))
        self.starts = np.append(self.starts, start + batch.num_rows)
        return start

    def take(self, column: str, rows: Ints, *, nullable: bool = False) -> pa.Array:
        """Values of a column for the given row numbers; with `nullable`, -1 gives NULL."""
        if column not in self._columns:
            self._columns[column] = [batch.column(column) for batch in self._batches]
        arrays = self._columns[column]
        if not arrays:
            return pa.nulls(len(rows), self._schema.field(column).type)
        if not nullable and len(rows) > DENSE * len(arrays) and np.all(rows[1:] >= rows[:-1]):
            return self._take_ascending(arrays, rows)
        taken = pa.chunked_array(arrays).take(pa.array(rows, mask=rows < 0 if nullable else None))
        return taken.chunk(0) if taken.num_chunks == 1 else pa.concat_arrays(taken.chunks)

    def _take_ascending(self, arrays: list[pa.Array], rows: Ints) -> pa.Array:
        """Take from block after block: several times faster than from all of them at once."""
        cuts = np.searchsorted(rows, self.starts)
        parts = [
            array.take(pa.array(rows[begin:end] - start))
            for array, start, begin, end in zip(arrays, self.starts, cuts, cuts[1:], strict=False)
            if end > begin
        ]
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)

    def least(self, column: str, rows: Ints) -> int | None:
        """Least value of a time column, in microseconds; None if there is none but NULLs."""
        values = self.take(column, rows)
        if pa.types.is_timestamp(values.type):
            values = values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64())
        found: int | None = pc.min(values).as_py()
        return found

    def locate(self, rows: Ints) -> tuple[Ints, Ints]:
        """Block index and row within the block, for each row number."""
        block = np.searchsorted(self.starts, rows, side="right") - 1
        return block, rows - self.starts[block]

    def refs(self, rows: Ints) -> tuple[Ints, Ints, Ints]:
        """Commit, chunk and row within the block: the address of a row that outlives this store."""
        block, row = self.locate(rows)
        ids = np.array(self.ids, np.int64).reshape(-1, 2)
        return ids[block, 0], ids[block, 1], row

    def number(self, commit: Ints, chunk: Ints, row: Ints) -> Ints:
        """Row numbers of addresses whose blocks are in this store."""
        if not len(row):
            return row
        pairs, inverse = np.unique(np.stack([commit, chunk], axis=1), axis=0, return_inverse=True)
        index = np.array([self._index[Position(int(c), int(k))] for c, k in pairs], np.int64)
        return self.starts[index[inverse.reshape(-1)]] + row

    def keep(self, blocks: Ints) -> None:
        """Drop all blocks but those with the given ascending indexes; rows are numbered anew."""
        sizes = self.starts[blocks + 1] - self.starts[blocks]
        self.ids = [self.ids[i] for i in blocks]
        self._batches = [self._batches[i] for i in blocks]
        self._columns = {}
        self._index = {block: i for i, block in enumerate(self.ids)}
        self.starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
