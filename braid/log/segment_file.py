"""A segment, open for reading: its commits, blocks, times and index."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from braid.core.errors import LogError
from braid.log.hash_index import Entries, search
from braid.log.layout import segment_path
from braid.log.lru import Lru
from braid.log.mapped import VerifiedFile
from braid.log.records import Block, Commit
from braid.log.segments import INDEX_PAGE, Footer, Page, Section, SegmentEntry
from braid.log.storage import Storage

COMMITS_KEPT = 64
"""Commits of which a segment remembers where their blocks are."""

Ints = npt.NDArray[np.int64]


class SegmentFile:
    """One segment. What was never asked for is never read."""

    def __init__(self, storage: Storage, entry: SegmentEntry) -> None:
        self.entry = entry
        self._file = VerifiedFile(storage, segment_path(entry.file), entry.size)
        footer = self._file.unverified(entry.footer, entry.size - entry.footer)
        self._places = Lru[int, dict[str, tuple[int, int]]](COMMITS_KEPT)
        self.footer = Footer.unseal(footer.to_pybytes(), entry, self._file.where)

    def commit(self, number: int) -> Commit:
        """A commit by number, as its own record told of it."""
        line = number - self.entry.first
        offset, length = self.footer.records[0] + int(self._offset[line]), int(self._length[line])
        return Commit.unseal(self.bytes(offset, length).to_pybytes(), number, self._file.where)

    def block(self, commit: int, block: Block) -> pa.RecordBatch:
        """The rows of a block of a commit."""
        shift, schema = self._places.get(commit, lambda: self._places_of(commit))[block.file]
        offset = block.offset + shift
        found = self._file.part(offset, block.length, block.checksum, f"block at byte {offset}")
        return pa.ipc.read_record_batch(found, self.schemas[schema])

    def _places_of(self, commit: int) -> dict[str, tuple[int, int]]:
        """How far the blocks of each file of a commit have been moved, and the number of their schema."""
        line = commit - self.entry.first
        begin, end = int(self._files_end[line - 1]) if line else 0, int(self._files_end[line])
        name, shift, schema = (column.to_pylist() for column in self.files.slice(begin, end - begin).columns)
        return dict(zip(name, zip(shift, schema, strict=True), strict=True))

    def overlapping(self, column: str, until: tuple[int, int], low: int, high: int) -> list[tuple[int, int]]:
        """Commit and chunk numbers, up to and including `until`, that may hold times within `[low, high]`."""
        if f"{column} min" not in self.chunks.column_names:
            return []
        some = slice(0, self._lines(until))
        least, greatest = (self.chunks[f"{column} {end}"].to_numpy()[some] for end in ("min", "max"))
        found = np.flatnonzero((least <= high) & (greatest >= low))
        return [(int(c), int(k)) for c, k in zip(self._commit[found], self._chunk[found], strict=True)]

    def find(
        self, until: tuple[int, int], hashes: Ints, low: Ints, high: Ints
    ) -> Iterator[tuple[tuple[int, int], Ints]]:
        """Chunks up to and including `until`, and their rows with one of `hashes` at a time in its range.

        `hashes` ascend, and `low` and `high` are the range of each. Rows are numbered within the chunk.
        """
        if self.footer.index is None:
            raise LogError("the segment has no index by hash", where=self._file.where)
        lines = self._lines(until)
        found = [np.empty(0, np.int64)]
        for page in self.footer.index:
            begin = int(np.searchsorted(hashes, page.hash_min, side="left"))
            end = int(np.searchsorted(hashes, page.hash_max, side="right"))
            if begin == end:
                continue
            entries = self.page(page)
            hits = search(entries, hashes[begin:end], low[begin:end], high[begin:end])
            line = entries.chunk[hits].astype(np.int64)
            address = (line << 32) | entries.row[hits]
            found.append(address[line < lines])
        addresses = np.sort(np.concatenate(found))
        line = addresses >> 32
        cuts = np.flatnonzero(np.diff(line, prepend=-1))
        for rows in np.split(addresses, cuts[1:]) if len(cuts) else []:
            at = rows[0] >> 32
            yield (int(self._commit[at]), int(self._chunk[at])), rows & 0xFFFFFFFF

    def page(self, page: Page) -> Entries:
        """A page of the index."""
        found = self._file.part(page.offset, page.length, page.checksum, f"index at byte {page.offset}")
        return Entries.of_page(pa.ipc.read_record_batch(found, INDEX_PAGE))

    def bytes(self, offset: int, length: int) -> pa.Buffer:
        """Some bytes, which their reader verifies."""
        return self._file.unverified(offset, length)

    @cached_property
    def commits(self) -> pa.Table:
        """Where the records are: see `COMMIT_TABLE`."""
        return self._table(self.footer.commits, "table of commits")

    @cached_property
    def files(self) -> pa.Table:
        """Where the blocks are: see `FILE_TABLE`."""
        return self._table(self.footer.files, "table of files")

    @cached_property
    def chunks(self) -> pa.Table:
        """Chunks and their times: see `CHUNK_TABLE`."""
        return self._table(self.footer.chunks, "table of chunks")

    @cached_property
    def schemas(self) -> list[pa.Schema]:
        """The schemas that blocks were written with."""
        return [pa.ipc.read_schema(self.section(section, "schema")) for section in self.footer.schemas]

    def section(self, section: Section, what: str) -> pa.Buffer:
        """A part of the segment, verified."""
        return self._file.part(*section, what)

    def _table(self, section: Section, what: str) -> pa.Table:
        return pa.ipc.open_stream(self.section(section, what)).read_all()

    @cached_property
    def _offset(self) -> Ints:
        return np.asarray(self.commits["offset"].to_numpy())

    @cached_property
    def _length(self) -> Ints:
        return np.asarray(self.commits["length"].to_numpy())

    @cached_property
    def _files_end(self) -> Ints:
        return np.asarray(self.commits["files_end"].to_numpy())

    @cached_property
    def _commit(self) -> Ints:
        return np.asarray(self.chunks["commit"].to_numpy())

    @cached_property
    def _chunk(self) -> Ints:
        return np.asarray(self.chunks["chunk"].to_numpy())

    def _lines(self, until: tuple[int, int]) -> int:
        """How many lines of the table of chunks are up to and including a position."""
        begin, end = np.searchsorted(self._commit, [until[0], until[0] + 1])
        return int(begin + np.searchsorted(self._chunk[begin:end], until[1], side="right"))
