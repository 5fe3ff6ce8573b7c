"""Writing segments: of commits, or of smaller segments that follow each other."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from braid.log.data_file import DataFile
from braid.log.hash_index import Entries, is_indexed, pages
from braid.log.layout import SEGMENTS, segment_path
from braid.log.records import Commit
from braid.log.sealed import checksum
from braid.log.segment_file import SegmentFile
from braid.log.segments import (
    CHUNK_TABLE,
    COMMIT_TABLE,
    FILE_TABLE,
    Footer,
    Page,
    Section,
    SegmentEntry,
    limit_columns,
)

if TYPE_CHECKING:
    from braid.log.category import Category

COPY_BYTES = 1 << 23
"""Bytes copied at once."""
NO_TIMES = (2**63 - 1, -(2**63))
"""Limits of the times of a chunk that has none."""


def write_commits(category: Category, commits: Sequence[tuple[Commit, bytes]]) -> SegmentEntry:
    """Write a segment of consecutive commits that have files of their own, given with their records."""
    first, last = commits[0][0].id, commits[-1][0].id
    name = _new_name(category, first, last)
    with category.storage.output(segment_path(name)) as sink:
        segment = _Segment(sink, first, last, indexed=is_indexed(category.schema))
        line = 0
        for commit, _ in commits:
            _add_blocks(category, segment, commit, line)
            line += len(commit.chunks)
        lengths = [len(record) for _, record in commits]
        segment.commits.append(
            pa.table(
                [
                    list(accumulate(lengths[:-1], initial=0)),
                    lengths,
                    [commit.wall_time for commit, _ in commits],
                    list(accumulate(len(commit.files) for commit, _ in commits)),
                ],
                schema=COMMIT_TABLE,
            )
        )
        segment.chunks.append(_chunk_table([commit for commit, _ in commits]))
        segment.rows = sum(commit.rows for commit, _ in commits)
        footer = segment.write_tables()
        for _, record in commits:
            segment.write(record)
        return segment.finish(name, footer)


def merge_segments(category: Category, sources: Sequence[SegmentFile]) -> SegmentEntry:
    """Write one segment of several that follow each other."""
    first, last = sources[0].entry.first, sources[-1].entry.last
    name = _new_name(category, first, last)
    with category.storage.output(segment_path(name)) as sink:
        segment = _Segment(
            sink, first, last, indexed=all(source.footer.index is not None for source in sources)
        )
        for source in sources:
            segment.add_tables(source, segment.copy(source, *source.footer.blocks))
        footer = segment.write_tables()
        for source in sources:
            segment.copy(source, *source.footer.records)
        return segment.finish(name, footer)


class _Segment:
    """A segment that is being written: blocks, then schemas, tables and index, then records and footer.

    Arrow's parts come first: their lengths are multiples of 8, so they are aligned without padding, and every
    byte is covered by a checksum.
    """

    def __init__(self, sink: pa.NativeFile, first: int, last: int, *, indexed: bool) -> None:
        self._sink = sink
        self._first = first
        self._last = last
        self._position = 0
        self._schemas: dict[bytes, int] = {}
        self.rows = 0
        self.commits: list[pa.Table] = []
        self.files: list[pa.Table] = []
        self.chunks: list[pa.Table] = []
        self.index: list[Sequence[Entries]] | None = [] if indexed else None

    def write(self, data: bytes | pa.Buffer) -> int:
        """Write some bytes; returns where they are."""
        offset = self._position
        self._sink.write(data)
        self._position += len(data)
        return offset

    def copy(self, source: SegmentFile, offset: int, length: int) -> int:
        """Copy bytes of another segment; returns by how much they have moved."""
        moved = self._position - offset
        for start in range(offset, offset + length, COPY_BYTES):
            self.write(source.bytes(start, min(COPY_BYTES, offset + length - start)))
        return moved

    def schema(self, serialised: bytes) -> int:
        """The number of a schema of blocks."""
        return self._schemas.setdefault(serialised, len(self._schemas))

    def add_tables(self, source: SegmentFile, moved: int) -> None:
        """Take over what a segment says of its commits, whose blocks have been moved."""
        schemas = [
            self.schema(source.section(section, "schema").to_pybytes()) for section in source.footer.schemas
        ]
        if self.index is not None:
            lines = sum(map(len, self.chunks))
            self.index.append([source.page(page).shifted(lines) for page in source.footer.index or ()])
        files = sum(map(len, self.files))
        records = self._record_bytes()
        name, shift, schema = source.files.columns
        numbers = np.array(schemas, np.int32)[schema.to_numpy()]
        self.files.append(pa.table([name, pa.array(shift.to_numpy() + moved), numbers], schema=FILE_TABLE))
        offset, length, wall_time, ends = source.commits.columns
        self.commits.append(
            pa.table(
                [
                    pa.array(offset.to_numpy() + records),
                    length,
                    wall_time,
                    pa.array(ends.to_numpy() + files),
                ],
                schema=COMMIT_TABLE,
            )
        )
        self.chunks.append(source.chunks)
        self.rows += source.entry.rows

    def write_tables(self) -> Footer:
        """Write schemas, tables and index behind all blocks; returns the footer. Commit records come next."""
        blocks = (0, self._position)
        schemas = tuple(self._section(schema) for schema in self._schemas)
        commits = self._section(_serialised(pa.concat_tables(self.commits)))
        files = self._section(_serialised(pa.concat_tables([FILE_TABLE.empty_table(), *self.files])))
        chunks = self._section(_serialised(_joined(self.chunks)))
        index = None if self.index is None else tuple(map(self._page, pages(self.index)))
        records = (self._position, self._record_bytes())
        return Footer(self._first, self._last, blocks, records, schemas, commits, files, chunks, index)

    def finish(self, name: str, footer: Footer) -> SegmentEntry:
        """Write the footer behind all records; returns what the settings are to say of the segment."""
        start = self.write(footer.seal())
        walls = np.concatenate([table["wall_time"].to_numpy() for table in self.commits])
        wall = (int(walls.min()), int(walls.max()))
        times = _limits(_joined(self.chunks))
        return SegmentEntry(self._first, self._last, name, self._position, start, self.rows, wall, times)

    def _record_bytes(self) -> int:
        """Length of all commit records so far."""
        return sum(int(table["length"].to_numpy().sum()) for table in self.commits)

    def _section(self, data: bytes | pa.Buffer) -> Section:
        return Section(self.write(data), len(data), checksum(memoryview(data)))

    def _page(self, page: pa.RecordBatch) -> Page:
        hashes = page.column("hash")
        section = self._section(page.serialize())
        return Page(*section, page.num_rows, hashes[0].as_py(), hashes[-1].as_py())


def _new_name(category: Category, first: int, last: int) -> str:
    """The name of a new segment: unique, since an attempt that failed may have left its file."""
    category.storage.make_folder(SEGMENTS)
    return f"{first}-{last}-{uuid.uuid4().hex[:12]}.segment"


def _add_blocks(category: Category, segment: _Segment, commit: Commit, line: int) -> None:
    """Copy the blocks of a commit, verified, and index their rows; its chunks are listed from `line` on."""
    files = {name: DataFile(category.storage, entry) for name, entry in commit.files.items()}
    shifts = []
    for name, entry in commit.files.items():
        shifts.append(segment.write(files[name].blocks(entry)) - entry.header[0])
    schemas = [segment.schema(file.schema.serialize().to_pybytes()) for file in files.values()]
    segment.files.append(pa.table([list(files), shifts, schemas], schema=FILE_TABLE))
    for chunk in commit.chunks:
        blocks = [files[block.file].block(block) for block in chunk.blocks]
        if segment.index is not None:
            segment.index.append([Entries.of_chunk(blocks, line + chunk.index)])


def _chunk_table(commits: Sequence[Commit]) -> pa.Table:
    """Addresses and times of all chunks."""
    chunks = [(commit.id, chunk) for commit in commits for chunk in commit.chunks]
    table = pa.table(
        [[number for number, _ in chunks], [chunk.index for _, chunk in chunks]], schema=CHUNK_TABLE
    )
    for column in dict.fromkeys(name for _, chunk in chunks for name in chunk.times):
        limits = []
        for _, chunk in chunks:
            stats = chunk.times.get(column)
            known = stats is not None and stats.min is not None and stats.max is not None
            limits.append((stats.min, stats.max) if known and stats is not None else NO_TIMES)
        for place, end in enumerate(("min", "max")):
            values = pa.array([limit[place] for limit in limits], pa.int64())
            table = table.append_column(f"{column} {end}", values)
    return table


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Tables of chunks as one; a time column that some do not have has no times there."""
    columns = dict.fromkeys(column for table in tables for column in limit_columns(table))
    parts = []
    for table in tables:
        part = table.select(CHUNK_TABLE.names)
        for column in columns:
            for end, nothing in zip(("min", "max"), NO_TIMES, strict=True):
                name = f"{column} {end}"
                values = (
                    table[name]
                    if name in table.column_names
                    else pa.array(np.full(len(table), nothing, np.int64))
                )
                part = part.append_column(name, values)
        parts.append(part)
    return pa.concat_tables(parts)


def _limits(chunks: pa.Table) -> dict[str, tuple[int, int]]:
    """Least and greatest time of each time column that has any."""
    limits = {}
    for column in limit_columns(chunks):
        least = int(chunks[f"{column} min"].to_numpy().min(initial=NO_TIMES[0]))
        greatest = int(chunks[f"{column} max"].to_numpy().max(initial=NO_TIMES[1]))
        if least <= greatest:
            limits[column] = (least, greatest)
    return limits


def _serialised(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table.combine_chunks())
    return sink.getvalue()
