"""Reading: finding new commits without listing old ones, and blocks as memory maps, verified once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from braid.core.columns import HASH, TIME
from braid.core.errors import CorruptError, LogError, SchemaError
from braid.log.data_file import DataFile
from braid.log.layout import commit_path
from braid.log.lru import Lru
from braid.log.records import Block, Chunk, Commit
from braid.log.segment_file import SegmentFile
from braid.log.segments import SegmentEntry
from braid.log.timeindex import TimeIndex

if TYPE_CHECKING:
    from braid.log.category import Category

COMMITS_KEPT = 1024
FILES_KEPT = 512
SEGMENTS_KEPT = 256
BLOCKS_KEPT = 512
"""What a reader keeps at hand. Files are maps without a descriptor, of which a process can have 65,530; large
blocks are views of them, and keep them mapped for as long as somebody has such a block."""
BYTES_KEPT = 32 << 20
"""Of files, and of blocks: as a rule each is read once, by all shards of a worker one after the other."""

Found = TypeVar("Found")
Ints = npt.NDArray[np.int64]


class Reader:
    """Reads one category; keeps recent commits, open files and blocks. Threads may share it.

    Its view of the category may be old: records and files may have been compacted since, and then are gone.
    Whatever misses one looks at the settings again and finds the same rows in a segment.
    """

    def __init__(self, category: Category) -> None:
        self.category = category
        self._commits = Lru[int, Commit](COMMITS_KEPT)
        self._files = Lru[tuple[int, str], DataFile](FILES_KEPT, lambda file: file.size, BYTES_KEPT)
        self._segments = Lru[SegmentEntry, SegmentFile](SEGMENTS_KEPT)
        self._blocks = Lru[tuple[int, str, int], pa.RecordBatch](
            BLOCKS_KEPT, lambda block: int(block.nbytes), BYTES_KEPT
        )
        self._view = category.settings
        self._indexes: dict[str, TimeIndex] = {}
        self._indexing = Lock()

    @property
    def first(self) -> int:
        """The oldest commit that retention has left, as of the last look at the log."""
        return self.category.first

    def latest(self) -> int:
        """The newest commit, or `first - 1` if there is none: -1 in a new category."""
        latest = self.category.latest()
        self._let_go()
        return latest

    def grown(self, after: int) -> bool:
        """Whether a commit follows `after`, in one look at the log, where `latest` takes several."""
        following = after + 1
        return following <= self.category.settings.covered or self.category.storage.exists(
            commit_path(following)
        )

    def commit(self, commit: int) -> Commit:
        """A commit by number, its record verified."""
        return self._commits.get(commit, lambda: self._whole(lambda: self._load(commit)))

    def poll(self, after: int, limit: int) -> list[Commit]:
        """The commits that follow `after`, oldest first, at most `limit`."""
        last = self.latest()
        if after + 1 < self.first:
            raise LogError(
                f"commits {after + 1} to {self.first - 1} were removed by retention before they were read",
                where=self.category.storage.full(commit_path(after + 1)),
                hint=f"start again from commit {self.first}, and keep the log for longer",
            )
        return [self.commit(n) for n in range(after + 1, min(last, after + limit) + 1)]

    def read(
        self,
        commit: int,
        chunk: int,
        *,
        hash_range: tuple[int, int] | None = None,
        columns: Sequence[str] | None = None,
    ) -> pa.RecordBatch:
        """Rows of a chunk: all, or those whose hash is in a range (both ends inclusive), sorted by hash.

        Columns come by name, all of the category's if None. A column that is younger than the chunk is
        NULL. Rows of a single block come without a copy: from a local disk they are memory-mapped.
        """
        record = self.commit(commit)
        if not 0 <= chunk < len(record.chunks):
            raise LogError(
                f"chunk {chunk} does not exist",
                where=self.category.storage.full(commit_path(commit)),
                hint=f"commit {commit} has {len(record.chunks)} chunks, counted from 0",
            )
        blocks = record.chunks[chunk].blocks
        if hash_range is None:
            parts = [self._block(commit, block) for block in blocks]
        else:
            parts = self._search(commit, record.chunks[chunk], *hash_range)
        parts = [self._select(part, columns) for part in parts]
        if len(parts) == 1:
            return parts[0]
        if parts:
            return pa.concat_batches(parts)
        return self._select(self._block(commit, blocks[0]).slice(0, 0), columns)

    def overlapping(self, column: str, until: tuple[int, int], low: int, high: int) -> list[tuple[int, int]]:
        """Commit and chunk numbers, up to and including `until`, that may hold times within `[low, high]`.

        Of a segment, its entry in the settings tells whether it is worth a look; outside of segments, each
        commit record is looked at once, and then a search costs a scan of four numbers per chunk.
        """
        self.refresh()
        return self._whole(
            lambda: [
                *(
                    chunk
                    for entry in self._overlapping_segments(column, until, low, high)
                    for chunk in self._segment(entry).overlapping(column, until, low, high)
                ),
                *self._overlapping_tail(column, until, low, high),
            ],
            steady=True,
        )

    def find(
        self,
        until: tuple[int, int],
        hashes: Ints,
        low: Ints,
        high: Ints,
        hash_range: tuple[int, int] | None = None,
    ) -> list[tuple[tuple[int, int], Ints | None]]:
        """Where rows with some hashes and event times may be: chunks in order, and rows in them.

        Segments answer by binary search in their indexes, and name the rows. A chunk that is in no segment is
        named as a whole, with None, if its times overlap.

        Parameters
        ----------
        until
            The last commit and chunk to look at.
        hashes, low, high
            Ascending hashes, each with the least and greatest event time that is asked for.
        hash_range
            What `read` will be called with, as which rows are numbered; other hashes are not looked for.
        """
        self.refresh()
        return self._whole(lambda: self._find(until, hashes, low, high, hash_range), steady=True)

    def rows_below(self, commit: int, chunk: int, low: int) -> int:
        """How many rows of a chunk have a hash below `low`, which may be beyond all hashes."""
        rows = 0
        for block in self.commit(commit).chunks[chunk].blocks:
            if block.hash_max is not None and block.hash_max < low:
                rows += block.rows
            elif block.hash_min is not None and block.hash_min < low:
                rows += int(np.searchsorted(self._block(commit, block).column(HASH).to_numpy(), low))
        return rows

    def refresh(self) -> None:
        """Look at the settings again, and let go of what has been removed or compacted."""
        self.category.refresh()
        self._let_go()

    def _let_go(self) -> None:
        """Keep nothing at hand that the settings no longer have; what was compacted is now in a segment."""
        settings = self.category.settings
        if settings is self._view:
            return
        before, self._view = self._view, settings
        if (before.first, before.segments) == (settings.first, settings.segments):
            return
        covered = settings.covered
        self._commits.keep(lambda commit: commit >= settings.first)
        self._files.keep(lambda key: key[0] > covered)
        self._segments.keep(set(settings.segments).__contains__)
        self._blocks.keep(lambda key: key[0] > covered)

    def rows(self, commit: int, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of a commit, chunk by chunk in arrival order; within a chunk they are sorted by hash."""
        for chunk in self.commit(commit).chunks:
            yield self.read(commit, chunk.index, columns=columns)

    def _whole(self, attempt: Callable[[], Found], *, steady: bool = False) -> Found:
        """The result of an attempt to read something, tried again while others exchange what it needs.

        With `steady` also if another thread has looked at the settings meanwhile: what has moved from a file
        of its own to a segment would be found in neither.
        """
        while True:
            view = self.category.settings
            try:
                found = attempt()
                if not steady or self.category.settings is view:
                    return found
            except CorruptError:
                raise
            except LogError:
                self.refresh()
                if self.category.settings is view:
                    raise

    def _load(self, commit: int) -> Commit:
        entry = self.category.settings.segment_of(commit)
        if entry is not None:
            return self._segment(entry).commit(commit)
        storage, path = self.category.storage, commit_path(commit)
        return Commit.unseal(storage.read(path), commit, storage.full(path))

    def _segment(self, entry: SegmentEntry) -> SegmentFile:
        return self._segments.get(entry, lambda: SegmentFile(self.category.storage, entry))

    def _block(self, commit: int, block: Block) -> pa.RecordBatch:
        key = (commit, block.file, block.offset)
        return self._blocks.get(key, lambda: self._whole(lambda: self._decode(commit, block)))

    def _decode(self, commit: int, block: Block) -> pa.RecordBatch:
        entry = self.category.settings.segment_of(commit)
        if entry is not None:
            return self._segment(entry).block(commit, block)
        record = self.commit(commit).files[block.file]
        file = self._files.get((commit, block.file), lambda: DataFile(self.category.storage, record))
        return file.block(block)

    def _overlapping_segments(
        self, column: str, until: tuple[int, int], low: int, high: int
    ) -> Iterator[SegmentEntry]:
        for entry in self.category.settings.live_segments:
            if entry.first > until[0]:
                return
            least, greatest = entry.times.get(column, (high + 1, low - 1))
            if least <= high and greatest >= low:
                yield entry

    def _overlapping_tail(
        self, column: str, until: tuple[int, int], low: int, high: int
    ) -> list[tuple[int, int]]:
        with self._indexing:
            index = self._indexes.setdefault(column, TimeIndex(column))
            index.forget(self.category.settings.covered + 1)
            index.extend(self.commit(n) for n in range(index.next, until[0] + 1))
            return index.overlapping(until, low, high)

    def _find(
        self,
        until: tuple[int, int],
        hashes: Ints,
        low: Ints,
        high: Ints,
        hash_range: tuple[int, int] | None,
    ) -> list[tuple[tuple[int, int], Ints | None]]:
        if hash_range is not None:
            least, greatest = hash_range
            mine = slice(np.searchsorted(hashes, least, "left"), np.searchsorted(hashes, greatest, "right"))
            hashes, low, high = hashes[mine], low[mine], high[mine]
        if not len(hashes):
            return []
        found: list[tuple[tuple[int, int], Ints | None]] = []
        limits = int(low.min()), int(high.max())
        for entry in self._overlapping_segments(TIME, until, *limits):
            segment = self._segment(entry)
            if segment.footer.index is None:
                found += [(chunk, None) for chunk in segment.overlapping(TIME, until, *limits)]
                continue
            for chunk, rows in segment.find(until, hashes, low, high):
                first = 0 if hash_range is None else self.rows_below(*chunk, hash_range[0])
                found.append((chunk, rows - first))
        found += [(chunk, None) for chunk in self._overlapping_tail(TIME, until, *limits)]
        return found

    def _search(self, commit: int, chunk: Chunk, low: int, high: int) -> list[pa.RecordBatch]:
        parts = []
        for block in chunk.blocks:
            if block.hash_min is None or block.hash_max is None:
                raise LogError(
                    "rows are not sorted by hash, so no range of hashes can be read",
                    where=f"category {self.category.name}",
                    hint=f"read whole chunks, or write the category with a column {HASH!r}",
                )
            if block.hash_max < low or block.hash_min > high:
                continue
            rows = self._block(commit, block)
            if block.hash_min < low or block.hash_max > high:
                hashes = rows.column(HASH).to_numpy()
                start = int(np.searchsorted(hashes, low, side="left"))
                rows = rows.slice(start, int(np.searchsorted(hashes, high, side="right")) - start)
            parts.append(rows)
        return parts

    def _select(self, rows: pa.RecordBatch, columns: Sequence[str] | None) -> pa.RecordBatch:
        stored = rows.schema
        if columns is None:
            columns = self._known(stored.names).names
        fields, arrays = [], []
        for name in columns:
            if (index := stored.get_field_index(name)) >= 0:
                fields.append(stored.field(index))
                arrays.append(rows.column(index))
            else:
                fields.append(self._known([name]).field(name))
                arrays.append(pa.nulls(rows.num_rows, fields[-1].type))
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    def _known(self, names: Sequence[str]) -> pa.Schema:
        """The category's schema, which must have `names`; looks again before it says that it has not."""
        if not set(names) <= set(self.category.schema.names):
            self.category.refresh()
        schema = self.category.schema
        unknown = [name for name in names if name not in schema.names]
        if unknown:
            raise SchemaError(
                f"column {unknown[0]!r} does not exist",
                where=f"category {self.category.name}",
                hint=f"existing columns: {', '.join(schema.names)}",
            )
        return schema
