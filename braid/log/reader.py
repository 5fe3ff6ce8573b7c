"""Reading: finding new commits without listing old ones, and blocks as memory maps, verified once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from braid.core.columns import HASH
from braid.core.errors import CorruptError, LogError, SchemaError
from braid.log.layout import MAGIC_LENGTH, commit_path, data_path
from braid.log.records import Block, Chunk, Commit, FileEntry
from braid.log.sealed import checksum
from braid.log.storage import Storage, naming
from braid.log.timeindex import TimeIndex

if TYPE_CHECKING:
    from braid.log.category import Category

COMMITS_KEPT = 1024
FILES_KEPT = 1024
BLOCKS_KEPT = 256
"""What a reader keeps at hand. Files are maps without a descriptor, and blocks are views of them."""


class Reader:
    """Reads one category; keeps recent commits, open files and blocks. Threads may share it."""

    def __init__(self, category: Category) -> None:
        self.category = category
        self._commit = lru_cache(COMMITS_KEPT)(self._load)
        self._file = lru_cache(FILES_KEPT)(self._open)
        self._block = lru_cache(BLOCKS_KEPT)(self._decode)
        self._indexes: dict[str, TimeIndex] = {}
        self._indexing = Lock()

    @property
    def first(self) -> int:
        """The oldest commit that retention has left, as of the last look at the log."""
        return self.category.first

    def latest(self) -> int:
        """The newest commit, or `first - 1` if there is none: -1 in a new category."""
        return self.category.latest()

    def commit(self, commit: int) -> Commit:
        """A commit by number, its record verified."""
        return self._commit(commit)

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

        Each commit record is looked at once; after that, a search costs a scan of four numbers per chunk.
        """
        with self._indexing:
            index = self._indexes.setdefault(column, TimeIndex(column))
            index.forget(self.first)
            index.extend(self.commit(n) for n in range(index.next, until[0] + 1))
            return index.overlapping(until, low, high)

    def rows(self, commit: int, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of a commit, chunk by chunk in arrival order; within a chunk they are sorted by hash."""
        for chunk in self.commit(commit).chunks:
            yield self.read(commit, chunk.index, columns=columns)

    def _load(self, commit: int) -> Commit:
        storage, path = self.category.storage, commit_path(commit)
        return Commit.unseal(storage.read(path), commit, storage.full(path))

    def _open(self, commit: int, file: str) -> _DataFile:
        return _DataFile(self.category.storage, self.commit(commit).files[file])

    def _decode(self, commit: int, block: Block) -> pa.RecordBatch:
        file = self._file(commit, block.file)
        return pa.ipc.read_record_batch(file.block(block), file.schema)

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


class _DataFile:
    """An open data file whose size, header and footer have been verified, and which verifies its blocks."""

    def __init__(self, storage: Storage, entry: FileEntry) -> None:
        self._where = storage.full(data_path(str(entry.file)))
        self._map: pa.Buffer | None = None
        self._verified: set[int] = set()
        with naming(self._where, "open"):
            self._source = storage.filesystem.open_input_file(self._where)
            if self._source.size() != entry.size:
                raise self._corrupt(f"the file has {self._source.size()} bytes, not the {entry.size} written")
            if storage.local:
                with pa.memory_map(self._where) as source:
                    self._map = source.read_buffer()
                self._source.close()
        (length, header_sum), (offset, tail_sum) = entry.header, entry.tail
        header, tail = self._bytes(0, length), self._bytes(offset, entry.size - offset)
        self._verify(header, header_sum, "header")
        self._verify(tail, tail_sum, "footer")
        self.schema = pa.ipc.read_schema(header.slice(MAGIC_LENGTH))

    def block(self, block: Block) -> pa.Buffer:
        """The bytes of a block, verified: once if they are mapped, else each time they are fetched."""
        found = self._bytes(block.offset, block.length)
        if self._map is None or block.offset not in self._verified:
            self._verify(found, block.checksum, f"block at byte {block.offset}")
            self._verified.add(block.offset)
        return found

    def _bytes(self, offset: int, length: int) -> pa.Buffer:
        if self._map is not None:
            return self._map.slice(offset, length)
        with naming(self._where, "read"):
            return pa.py_buffer(self._source.read_at(length, offset))

    def _verify(self, found: pa.Buffer, expected: int, what: str) -> None:
        if checksum(memoryview(found)) != expected:
            raise self._corrupt(f"the {what} does not have the checksum it was written with")

    def _corrupt(self, what: str) -> CorruptError:
        return CorruptError(
            what, where=self._where, hint="the file was damaged or cut after it was written; restore a copy"
        )
