"""What a segment is: a run of old commits in one file, as the settings and the file itself tell of it.

A segment holds the commit records of its run and the blocks of their data files, byte by byte as they were
written, so that nothing that was ever said about a commit, a chunk or a row changes. Behind them are tables
that say where each of them is, an index of the rows by hash, and a sealed footer with the checksums of all
these. Who reads it begins at the entry in the settings of the category, which says where the footer is.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypedDict

import pyarrow as pa

from braid.core.errors import CorruptError
from braid.log.sealed import check_format, seal, unseal

SEGMENT_FORMAT = 1
"""Version of segment files; their footers have it as `format`."""

COMMIT_TABLE = pa.schema(
    [("offset", pa.int64()), ("length", pa.int64()), ("wall_time", pa.int64()), ("files_end", pa.int64())]
)
"""Per commit: where its record is within the records, and where its lines in the table of files end."""
FILE_TABLE = pa.schema([("name", pa.string()), ("shift", pa.int64()), ("schema", pa.int32())])
"""Per data file that a commit had: what to add to the offsets in the record, and the schema of its blocks."""
CHUNK_TABLE = pa.schema([("commit", pa.int64()), ("chunk", pa.int64())])
"""Per chunk, in order: its address. Then, as `<column> min` and `<column> max`, the limits of each time
column; where there are no times, the least is greater than the greatest."""
INDEX_PAGE = pa.schema(
    [("hash", pa.int64()), ("time", pa.int64()), ("chunk", pa.int32()), ("row", pa.int32())]
)
"""Per row with an event time, by hash and time: its line in the table of chunks, and its row in the chunk."""


SegmentRecord = tuple[int, int, str, int, int, int, tuple[int, int], dict[str, tuple[int, int]]]
"""A `SegmentEntry` as JSON has it: its attributes in order."""


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """What the settings of a category say of a segment.

    `footer` is where the footer begins, `wall` is the least and greatest wall-clock time of the commits, and
    `times` the least and greatest event time of the rows, per time column that has any.
    """

    first: int
    last: int
    file: str
    size: int
    footer: int
    rows: int
    wall: tuple[int, int]
    times: Mapping[str, tuple[int, int]] = field(hash=False)

    @property
    def commits(self) -> int:
        """How many commits it holds."""
        return self.last + 1 - self.first

    def pack(self) -> SegmentRecord:
        """The entry as JSON has it."""
        head = (self.first, self.last, self.file, self.size, self.footer, self.rows)
        return (*head, self.wall, dict(self.times))

    @classmethod
    def unpack(cls, record: SegmentRecord) -> SegmentEntry:
        """The entry that `pack` wrote."""
        first, last, file, size, footer, rows, (oldest, newest), times = record
        limits = {name: (low, high) for name, (low, high) in times.items()}
        return cls(first, last, file, size, footer, rows, (oldest, newest), limits)


def segment_of(segments: Sequence[SegmentEntry], commit: int) -> SegmentEntry | None:
    """The segment that holds a commit, of segments in order."""
    place = bisect_right(segments, commit, key=lambda entry: entry.first) - 1
    return segments[place] if place >= 0 and commit <= segments[place].last else None


class Section(NamedTuple):
    """Some bytes of a segment, with their checksum."""

    offset: int
    length: int
    checksum: int


class Page(NamedTuple):
    """A part of the index by hash: one Arrow record batch, with the hashes it spans."""

    offset: int
    length: int
    checksum: int
    rows: int
    hash_min: int
    hash_max: int


@dataclass(frozen=True)
class Footer:
    """Where the parts of a segment are.

    `blocks` and `records` are (offset, length) of all blocks and of all commit records, which have checksums
    of their own.
    """

    first: int
    last: int
    blocks: tuple[int, int]
    records: tuple[int, int]
    schemas: tuple[Section, ...]
    commits: Section
    files: Section
    chunks: Section
    index: tuple[Page, ...] | None
    """None if the rows have no hash, or no time to look them up by."""

    def seal(self) -> bytes:
        """The footer as it is stored."""
        record: _FooterRecord = {
            "format": SEGMENT_FORMAT,
            "first": self.first,
            "last": self.last,
            "blocks": list(self.blocks),
            "records": list(self.records),
            "schemas": [list(section) for section in self.schemas],
            "commits": list(self.commits),
            "files": list(self.files),
            "chunks": list(self.chunks),
            "index": None if self.index is None else [list(page) for page in self.index],
        }
        return seal(record)

    @classmethod
    def unseal(cls, data: bytes, entry: SegmentEntry, where: str) -> Footer:
        """The footer of a stored segment, which must be that of an entry."""
        record: _FooterRecord = json.loads(unseal(data, where))
        check_format(record["format"], where, SEGMENT_FORMAT)
        if (record["first"], record["last"]) != (entry.first, entry.last):
            raise CorruptError(
                f"the segment holds commits {record['first']} to {record['last']}, "
                f"not {entry.first} to {entry.last}",
                where=where,
                hint="the file was renamed or copied; restore the right one",
            )
        index = record["index"]
        return cls(
            record["first"],
            record["last"],
            (record["blocks"][0], record["blocks"][1]),
            (record["records"][0], record["records"][1]),
            tuple(Section(*section) for section in record["schemas"]),
            Section(*record["commits"]),
            Section(*record["files"]),
            Section(*record["chunks"]),
            None if index is None else tuple(Page(*page) for page in index),
        )


class _FooterRecord(TypedDict):
    format: int
    first: int
    last: int
    blocks: list[int]
    records: list[int]
    schemas: list[list[int]]
    commits: list[int]
    files: list[int]
    chunks: list[int]
    index: list[list[int]] | None


def limit_columns(chunks: pa.Table) -> list[str]:
    """The time columns of a table of chunks."""
    return [name.removesuffix(" min") for name in chunks.column_names if name.endswith(" min")]
