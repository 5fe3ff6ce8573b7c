"""Blocks as the kernels see them: where they come from, and a set of them addressed by row number."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from braid.core.positions import Position
from braid.kernels.arrays import Flags, Ints, Mask, extended, spans

LARGE_ROWS = 4096
LARGE_BYTES = 4 << 20
"""Blocks with as many rows or bytes are left where they are, which is in mapped files as a rule."""
SEGMENT_ROWS = 8 * LARGE_ROWS
SEGMENT_BYTES = 8 * LARGE_BYTES
"""Smaller ones are copied into segments of about this size."""
COPIED_BYTES = 256 << 10
"""To take rows from one more segment takes as long as copying so many bytes of a column."""
COMBINED_BYTES = 1 << 30
"""More bytes of a column are never copied at once: Arrow's texts have offsets of 32 bits."""
TIER = 8
"""How many times as large the segment may be that new rows are joined with."""


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


class _Segment(NamedTuple):
    """Rows that follow each other, and whether they stay where they are."""

    rows: pa.RecordBatch
    settled: bool


class _Part(NamedTuple):
    """A column of a segment, and how many bytes it has."""

    values: pa.Array
    weight: int


class BlockStore:
    """Rows of blocks, numbered through in order of arrival.

    Blocks are what the log and saved state speak of: each has a position, and as many rows as the log has in
    it. In memory, rows are in *segments*, each an Arrow batch of one large block or of many small neighbours.
    So a row is copied a few times at most, arrays are few however small blocks are, and what has been copied
    no longer holds the file that it was mapped from. Rows that are not wanted any more leave without their
    block (`keep`); `_origin` then has the number that each row would have if all of its block were here.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self.starts: Ints = np.zeros(1, np.int64)
        self._commits: Ints = np.zeros(0, np.int64)
        self._chunks: Ints = np.zeros(0, np.int64)
        self._sizes: Ints = np.zeros(0, np.int64)
        self._origin: Ints | None = None
        self._segments: list[_Segment] = []
        self._edges: list[int] = [0]
        self._columns: dict[str, list[_Part]] = {}

    @property
    def rows(self) -> int:
        """Rows in all blocks."""
        return int(self.starts[-1])

    @property
    def ids(self) -> list[Position]:
        """The blocks, ascending."""
        return [Position(*block) for block in zip(self._commits.tolist(), self._chunks.tolist(), strict=True)]

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return len(self._commits)

    @property
    def segments(self) -> int:
        """How many arrays each column is in."""
        return len(self._segments)

    def append(self, block: Position, batch: pa.RecordBatch) -> int:
        """Add a block, which comes after all others; its first row gets the returned number."""
        start, size = self.rows, batch.num_rows
        self._commits = extended(self._commits, [np.array([block.commit])])
        self._chunks = extended(self._chunks, [np.array([block.chunk])])
        if self._origin is not None:
            whole = int(self._sizes.sum())
            self._origin = extended(self._origin, [np.arange(whole, whole + size)])
        self._sizes = extended(self._sizes, [np.array([size])])
        self.starts = extended(self.starts, [np.array([start + size])])
        if size:
            settled = size >= LARGE_ROWS or batch.nbytes >= LARGE_BYTES
            self._segments.append(_Segment(batch, settled))
            for name, parts in self._columns.items():
                parts.append(_part(batch, name))
            self._edges.append(start + size)
        return start

    # -- values -----------------------------------------------------------------------------------

    def take(self, column: str, rows: Ints, *, nullable: bool = False) -> pa.Array:
        """Values of a column for the given row numbers; with `nullable`, -1 gives NULL."""
        return self.gather((column,), rows, nullable=nullable)[column]

    def gather(self, columns: Iterable[str], rows: Ints, *, nullable: bool = False) -> dict[str, pa.Array]:
        """Values of some columns for the given row numbers; with `nullable`, -1 gives NULL."""
        names = list(dict.fromkeys(columns))
        missing = rows < 0 if nullable and rows.min(initial=0) < 0 else None
        present = rows if missing is None else rows[~missing]
        if not len(present):
            return {name: pa.nulls(len(rows), self._schema.field(name).type) for name in names}
        first = bisect_right(self._edges, present.min()) - 1
        end = bisect_right(self._edges, present.max())
        # Arrow takes from several arrays by copying them into one, which pays for short ones.
        bound = min(COPIED_BYTES * min(len(present), end - first), COMBINED_BYTES)
        parts = {name: self._parts(name)[first:end] for name in names}
        apart = [name for name in names if end - first > 1 and sum(p.weight for p in parts[name]) > bound]
        index = pa.array(rows - self._edges[first], mask=missing)
        found = {name: _take(parts[name], index) for name in names if name not in apart}
        if apart:
            place = None if missing is None else pa.array(np.cumsum(~missing) - 1, mask=missing)
            for name, values in self._taken_apart(apart, present).items():
                found[name] = values if place is None else values.take(place)
        return found

    def _parts(self, name: str) -> list[_Part]:
        """A column of all segments."""
        if name not in self._columns:
            self._columns[name] = [_part(segment.rows, name) for segment in self._segments]
        return self._columns[name]

    def _taken_apart(self, names: Sequence[str], rows: Ints) -> dict[str, pa.Array]:
        """Take from segment after segment, and put the rows into their order again."""
        edges = np.array(self._edges)
        ascending = bool(np.all(rows[1:] >= rows[:-1]))
        if ascending:
            cuts = np.searchsorted(rows, edges)
        else:
            segment = np.searchsorted(edges, rows, side="right")
            # NumPy sorts short integers by their bits, which is several times as fast.
            order = np.argsort(segment.astype(np.uint16) if len(edges) < 2**16 else segment, kind="stable")
            rows = rows[order]
            cuts = np.cumsum(np.bincount(segment, minlength=len(edges)))
        parts = []
        for number, (begin, end) in enumerate(pairwise(cuts.tolist())):
            if end > begin:
                index = pa.array(rows[begin:end] - self._edges[number])
                parts.append([self._columns[name][number].values.take(index) for name in names])
        values = [some[0] if len(some) == 1 else pa.concat_arrays(some) for some in zip(*parts, strict=True)]
        if not ascending:
            back = np.empty_like(order)
            back[order] = np.arange(len(order))
            values = [array.take(pa.array(back)) for array in values]
        return dict(zip(names, values, strict=True))

    def least(self, column: str, rows: Ints) -> int | None:
        """Least value of a time column, in microseconds; None if there is none but NULLs."""
        found: int | None = pc.min(microseconds(self.take(column, rows))).as_py()
        return found

    # -- addresses --------------------------------------------------------------------------------

    def locate(self, rows: Ints) -> tuple[Ints, Ints]:
        """Block index and row within the block as the log has it, for each row number."""
        block = np.searchsorted(self.starts, rows, side="right") - 1
        if self._origin is None:
            return block, rows - self.starts[block]
        return block, self._origin[rows] - (np.cumsum(self._sizes) - self._sizes)[block]

    def refs(self, rows: Ints) -> tuple[Ints, Ints, Ints]:
        """Commit, chunk and row within the block: the address of a row that outlives this store."""
        block, row = self.locate(rows)
        return self._commits[block], self._chunks[block], row

    def number(self, commit: Ints, chunk: Ints, row: Ints) -> Ints:
        """Row numbers of addresses whose rows are in this store."""
        if not len(row):
            return row
        wide = 1 + max(int(self._chunks.max()), int(chunk.max()))
        block = np.searchsorted(self._commits * wide + self._chunks, commit * wide + chunk)
        if self._origin is None:
            return self.starts[block] + row
        return np.searchsorted(self._origin, (np.cumsum(self._sizes) - self._sizes)[block] + row)

    def present(self, commit: Ints, chunk: Ints, row: Ints) -> Mask:
        """Which addresses have their rows in this store."""
        if not len(row) or not self.rows:
            return np.zeros(len(row), np.bool_)
        wide = 1 + max(int(self._chunks.max()), int(chunk.max()))
        blocks, wanted = self._commits * wide + self._chunks, commit * wide + chunk
        block = np.minimum(np.searchsorted(blocks, wanted), len(blocks) - 1)
        found: Mask = blocks[block] == wanted
        if self._origin is None:
            return found
        origin = (np.cumsum(self._sizes) - self._sizes)[block] + row
        place = np.minimum(np.searchsorted(self._origin, origin), len(self._origin) - 1)
        found &= self._origin[place] == origin
        return found

    def count(self, rows: Ints) -> Ints:
        """How many of some rows are in each block."""
        if len(rows) > self.blocks:
            # As a rule they ascend already, and to see that is cheaper than to sort them.
            ascending = rows if np.all(rows[1:] >= rows[:-1]) else np.sort(rows)
            return np.diff(np.searchsorted(ascending, self.starts))
        block = np.searchsorted(self.starts, rows, side="right") - 1
        return np.bincount(block, minlength=self.blocks)

    def span(self, blocks: Ints) -> Ints:
        """Numbers of all rows of some blocks, which are given by their indexes."""
        return spans(self.starts[blocks], self.starts[blocks + 1])

    # -- what saved state has ---------------------------------------------------------------------

    def positions(self, held: Mask) -> Ints:
        """Commit and chunk of each block that a mask picks."""
        return np.stack([self._commits[held], self._chunks[held]], axis=1)

    def extent(self, held: Mask) -> tuple[int, int | None]:
        """How many blocks a mask picks, and the commit of the first one."""
        count = int(np.count_nonzero(held))
        return count, int(self._commits[np.argmax(held)]) if count else None

    def whole(self, flags: Flags, absent: int, held: Mask) -> Flags:
        """Flags of all rows that the log has in the blocks that a mask picks; `absent` for those not here."""
        if self._origin is not None:
            here, flags = flags, np.full(int(self._sizes.sum()), absent, np.uint8)
            flags[self._origin] = here
        if held.all():
            return flags
        first = int(np.argmax(held))
        if held[first:].all():
            # As a rule, blocks leave in the order in which they came.
            return flags[int(self._sizes[:first].sum()) :]
        return flags[np.repeat(held, self._sizes)]

    def whole_number(self, rows: Ints, held: Mask) -> Ints:
        """Where rows are in what `whole` gives."""
        block, row = self.locate(rows)
        sizes = np.where(held, self._sizes, 0)
        return (np.cumsum(sizes) - sizes)[block] + row

    # -- upkeep -----------------------------------------------------------------------------------

    def tidy(self) -> None:
        """Copy small segments at the end into one, when it is not much larger than what it is joined with."""
        self._join(self._small_before(len(self._segments), TIER), len(self._segments))

    def keep(self, wanted: Mask) -> tuple[Mask, Mask]:
        """Let rows go that a mask does not pick, and number the others anew; which rows and blocks are left.

        Segments of which most rows are wanted stay as they are.
        """
        left = wanted.copy()
        segments, edges = [], [0]
        for segment, begin, end in zip(self._segments, self._edges, self._edges[1:], strict=False):
            count = int(np.count_nonzero(wanted[begin:end]))
            if not count:
                continue
            if 2 * count > end - begin:
                left[begin:end] = True
                count = end - begin
            else:
                index = pa.array(np.flatnonzero(wanted[begin:end]))
                segment = _Segment(segment.rows.take(index), count >= SEGMENT_ROWS)
            segments.append(segment)
            edges.append(edges[-1] + count)
        self._segments, self._edges, self._columns = segments, edges, {}
        stay = self._renumber(left)
        end = len(segments)
        while end > 0:
            first = self._small_before(end, SEGMENT_ROWS)
            self._join(first, end)
            end = min(first, end - 1)
        return left, stay

    def _renumber(self, left: Mask) -> Mask:
        """Forget blocks without rows, and note which rows of the others are left; which blocks stay."""
        before = np.zeros(len(left) + 1, np.int64)
        np.cumsum(left, out=before[1:])
        count = before[self.starts[1:]] - before[self.starts[:-1]]
        stay: Mask = count > 0
        sizes = self._sizes[stay]
        if int(count.sum()) == int(sizes.sum()):
            self._origin = None
        else:
            origin = np.flatnonzero(left) if self._origin is None else self._origin[left]
            old, new = np.cumsum(self._sizes) - self._sizes, np.cumsum(sizes) - sizes
            self._origin = origin + np.repeat(new - old[stay], count[stay])
        self._commits, self._chunks, self._sizes = self._commits[stay], self._chunks[stay], sizes
        self.starts = np.append(0, np.cumsum(count[stay]))
        return stay

    def _small_before(self, end: int, tier: int) -> int:
        """From which segment on those before `end` are to be joined into one."""
        first, size, weight = end, 0, 0
        while first > 0 and size < SEGMENT_ROWS and weight < SEGMENT_BYTES:
            batch, settled = self._segments[first - 1]
            if settled or (size and batch.num_rows > tier * size):
                break
            first, size, weight = first - 1, size + batch.num_rows, weight + batch.nbytes
        return first

    def _join(self, first: int, end: int) -> None:
        """Make one segment of several neighbours."""
        if end - first > 1:
            batches = [segment.rows for segment in self._segments[first:end]]
            columns = zip(*(batch.columns for batch in batches), strict=True)
            arrays = [pa.concat_arrays(values) for values in columns]
            rows = pa.RecordBatch.from_arrays(arrays, names=batches[0].schema.names)
            settled = rows.num_rows >= SEGMENT_ROWS or rows.nbytes >= SEGMENT_BYTES
            self._segments[first:end] = [_Segment(rows, settled)]
            for name, parts in self._columns.items():
                parts[first:end] = [_part(rows, name)]
            self._edges[first + 1 : end] = []


def _part(batch: pa.RecordBatch, name: str) -> _Part:
    values = batch.column(name)
    return _Part(values, values.nbytes)


def _take(parts: Sequence[_Part], index: pa.Array) -> pa.Array:
    """Take from all parts at once."""
    if len(parts) == 1:
        return parts[0].values.take(index)
    taken = pa.chunked_array([part.values for part in parts]).take(index)
    return taken.chunk(0) if taken.num_chunks == 1 else taken.combine_chunks()


def microseconds(values: pa.Array) -> pa.Array:
    """Values of a time column as numbers."""
    if pa.types.is_temporal(values.type):
        values = values.cast(pa.timestamp("us", getattr(values.type, "tz", None))).cast(pa.int64())
    return values
