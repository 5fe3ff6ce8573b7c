"""What a commit says: its files, chunks and blocks, their checksums and event times, as JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NotRequired, TypedDict

from braid.core.errors import CorruptError
from braid.log.sealed import FORMAT, check_format, seal, unseal


@dataclass(frozen=True, slots=True)
class TimeStats:
    """Event times of one time column in one chunk, in microseconds.

    `min` and `max` are None if no row has a time; `sketch` is a serialised KLL sketch (doubles) of those
    that have one, `nulls` counts those that do not.
    """

    min: int | None
    max: int | None
    nulls: int
    sketch: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Block:
    """One record batch: a byte range of a data file, with the hashes it spans (None if unsorted)."""

    file: str
    shard: int
    offset: int
    length: int
    rows: int
    checksum: int
    hash_min: int | None
    hash_max: int | None


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows that arrived together, as one block per shard that has any; `index` counts within the commit."""

    index: int
    rows: int
    times: Mapping[str, TimeStats]
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class FileEntry:
    """What a task tells the driver about the data file it wrote: all that a commit records of it.

    `header` is (length, checksum) of the bytes before the first block, `tail` is (offset, checksum) of
    those after the last one. A task without rows has no file and no chunks.
    """

    file: str | None
    size: int
    header: tuple[int, int]
    tail: tuple[int, int]
    chunks: tuple[Chunk, ...]

    @classmethod
    def empty(cls) -> FileEntry:
        """The entry of a task that had no rows."""
        return cls(None, 0, (0, 0), (0, 0), ())

    @property
    def rows(self) -> int:
        """Rows in the file."""
        return sum(chunk.rows for chunk in self.chunks)

    def to_json(self) -> str:
        """The entry as text, for the way from an executor to the driver."""
        return json.dumps(_pack_file(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> FileEntry:
        """The entry that `to_json` wrote; its chunks count from 0."""
        return _unpack_file(json.loads(text), 0)


@dataclass(frozen=True, slots=True)
class Origin:
    """Who wrote a commit of a category that has many writers, and under which number of its own."""

    writer: str
    number: int


@dataclass(frozen=True, slots=True)
class Commit:
    """One published commit: everything about its rows but the rows."""

    id: int
    wall_time: int
    rows: int
    chunks: tuple[Chunk, ...]
    watermarks: Mapping[str, int]
    files: Mapping[str, FileEntry] = field(repr=False)
    origin: Origin | None = None

    @classmethod
    def unseal(cls, data: bytes, commit: int, where: str) -> Commit:
        """The commit of a stored record, which must be that of number `commit`."""
        record: _CommitRecord = json.loads(unseal(data, where))
        check_format(record["format"], where)
        if record["commit"] != commit:
            raise CorruptError(
                f"the record is that of commit {record['commit']}, not {commit}",
                where=where,
                hint="the file was renamed or copied; restore the right one",
            )
        files: dict[str, FileEntry] = {}
        chunks: list[Chunk] = []
        for packed in record["files"]:
            entry = _unpack_file(packed, len(chunks))
            files[str(entry.file)] = entry
            chunks += entry.chunks
        if "order" in record:
            chunks = [replace(chunks[number], index=index) for index, number in enumerate(record["order"])]
        rows = sum(chunk.rows for chunk in chunks)
        watermarks, origin = _unpack_origin(record)
        return cls(commit, record["wall_time"], rows, tuple(chunks), watermarks, files, origin)


def seal_commit(
    commit: int,
    entries: Iterable[FileEntry],
    watermarks: Mapping[str, int],
    wall_time: int,
    order: Sequence[int] | None = None,
    origin: Origin | None = None,
) -> bytes:
    """A commit record as it is stored.

    Files are in task order, and chunk numbers run through all of them, unless `order` lists those numbers in
    the order in which the chunks are to be read.
    """
    record: _CommitRecord = {
        "format": FORMAT,
        "commit": commit,
        "wall_time": wall_time,
        "watermarks": dict(watermarks),
        "files": [_pack_file(entry) for entry in entries if entry.file is not None],
    }
    if order is not None:
        record["order"] = list(order)
    if origin is not None:
        record["origin"] = (origin.writer, origin.number)
    return seal(record)


class _ChunkRecord(TypedDict):
    rows: int
    times: dict[str, tuple[int | None, int | None, int, str]]
    blocks: list[tuple[int, int, int, int, int, int | None, int | None]]


class _FileRecord(TypedDict):
    file: str | None
    size: int
    header: tuple[int, int]
    tail: tuple[int, int]
    chunks: list[_ChunkRecord]


class _CommitRecord(TypedDict):
    format: int
    commit: int
    wall_time: int
    watermarks: dict[str, int]
    files: list[_FileRecord]
    order: NotRequired[list[int]]
    origin: NotRequired[tuple[str, int]]


_OLD_ORIGIN = "commit:"
"""Before commits had an origin, it was a watermark of a column of this name and the writer's."""


def _unpack_origin(record: _CommitRecord) -> tuple[dict[str, int], Origin | None]:
    """Watermarks and origin of a commit, however old it is."""
    watermarks = dict(record["watermarks"])
    if "origin" in record:
        writer, number = record["origin"]
        return watermarks, Origin(writer, number)
    for name in [name for name in watermarks if name.startswith(_OLD_ORIGIN)]:
        return {}, Origin(name.removeprefix(_OLD_ORIGIN), watermarks[name])
    return watermarks, None


def _pack_file(entry: FileEntry) -> _FileRecord:
    return {
        "file": entry.file,
        "size": entry.size,
        "header": entry.header,
        "tail": entry.tail,
        "chunks": [
            {
                "rows": chunk.rows,
                "times": {
                    name: (t.min, t.max, t.nulls, base64.b64encode(t.sketch).decode())
                    for name, t in chunk.times.items()
                },
                "blocks": [
                    (b.shard, b.offset, b.length, b.rows, b.checksum, b.hash_min, b.hash_max)
                    for b in chunk.blocks
                ],
            }
            for chunk in entry.chunks
        ],
    }


def _unpack_file(record: _FileRecord, first_chunk: int) -> FileEntry:
    file = record["file"] or ""
    chunks = tuple(
        Chunk(
            index,
            chunk["rows"],
            {
                name: TimeStats(low, high, nulls, base64.b64decode(sketch))
                for name, (low, high, nulls, sketch) in chunk["times"].items()
            },
            tuple(Block(file, *block) for block in chunk["blocks"]),
        )
        for index, chunk in enumerate(record["chunks"], first_chunk)
    )
    (header_length, header_sum), (tail_offset, tail_sum) = record["header"], record["tail"]
    return FileEntry(
        record["file"], record["size"], (header_length, header_sum), (tail_offset, tail_sum), chunks
    )
