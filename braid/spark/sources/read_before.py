"""What a slicer has read so far, by its checkpoint, in parts that can be read again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyarrow import fs

from braid.core.connectors import SourceKind
from braid.core.errors import RunError
from braid.core.positions import Position
from braid.engine.offsets import ReadOffset
from braid.engine.slicing_again import BEGIN, Part, ReadBefore
from braid.log.log import Log
from braid.log.reader import Reader
from braid.log.shared import fresh
from braid.plan.stages.base import Source
from braid.spark.checkpoints import Checkpoint, read_offset
from braid.spark.paths import located
from braid.spark.sources.category import stretch_from
from braid.spark.sources.inputs import FILE_BYTES
from braid.spark.sources.seen_files import SeenFiles, is_hidden

_COMMITS_AT_ONCE = 10_000
"""Most commits of a part, however small they are."""
_FILES_AT_ONCE = 10_000
"""Most files of a part."""


@dataclass(frozen=True)
class Nothing:
    """Of a slicer that has not run yet."""

    end: Position = BEGIN

    def part(self, start: Position, end: Position | None = None) -> Part:
        """A part without anything in it."""
        return Part(start, start, start)


@dataclass(frozen=True)
class ReadCategory:
    """Chunks of a category, from its oldest one on.

    Parameters
    ----------
    log
        The category.
    end
        The first chunk that was not read.
    max_rows
        About the most rows of a part.
    """

    log: Reader
    end: Position
    max_rows: int

    def part(self, start: Position, end: Position | None = None) -> Part:
        """Chunks; what retention has removed is gone, and what a backup did not have."""
        self.log.refresh()
        first = max(start, Position(self.log.first, 0))
        if not self.log.grown(first.commit - 1):
            first = max(first, end or self.end)
        if end is None:
            found = stretch_from(self.log, first, self.max_rows, self.end.commit, _COMMITS_AT_ONCE)
            end = min(self.end, found.end)
        return Part(start, end, min(first, end), gone=max(0, min(first, end).commit - start.commit))


@dataclass(frozen=True)
class ReadFiles:
    """Files, in the order in which they were noted.

    Parameters
    ----------
    paths
        Of the files, with a scheme, without escapes.
    max_bytes
        About the most bytes of a part.
    """

    paths: Sequence[str]
    max_bytes: int = FILE_BYTES

    @property
    def end(self) -> Position:
        """Behind the last file."""
        return Position(len(self.paths), 0)

    def part(self, start: Position, end: Position | None = None) -> Part:
        """Files that are there; others are gone."""
        last = min(len(self.paths), start.commit + _FILES_AT_ONCE) if end is None else end.commit
        found: list[str] = []
        number, size = start.commit, 0
        while number < last and (end is not None or size < self.max_bytes):
            bytes_of = _size(self.paths[number])
            if bytes_of is not None:
                found.append(self.paths[number])
                size += bytes_of
            number += 1
        after = Position(number, 0)
        return Part(start, after, after, tuple(found), number - start.commit - len(found))


def read_before(source: Source, checkpoint: Checkpoint, log: Log, max_rows: int) -> ReadBefore:
    """What the query of a checkpoint has read of its source; `RunError` if that cannot be read again.

    Parameters
    ----------
    source, checkpoint
        The source, and the checkpoint of the slicer that reads it.
    log
        Where categories are.
    max_rows
        About the most rows of a category to read at once.
    """
    if checkpoint.done < 0:
        return Nothing()
    offset = json.loads(read_offset(checkpoint.folder, checkpoint.done)[1])
    if source.kind is SourceKind.SCRIBE:
        category = fresh(str(log.storage.root), source.name)
        return ReadCategory(category.reader(), ReadOffset.from_json(offset).next, max_rows)
    if source.kind is SourceKind.FILES:
        seen = SeenFiles(checkpoint.folder / "sources" / "0", Path(source.name))
        files = seen.between(-1, int(offset["logOffset"]))
        # Spark notes files that it then passes over.
        return ReadFiles([file.plain_path for file in files if not is_hidden(file.name)])
    raise RunError(
        f"what was read of {source.kind.value} {source.name!r} cannot be read again",
        hint="run the new program under another name, where it begins with the oldest record that is left; "
        "or keep keys, event time and types as they are",
    )


def _size(path: str) -> int | None:
    """The bytes of a file; None if it is gone."""
    filesystem, where = located(path)
    found = filesystem.get_file_info(where)
    return int(found.size or 0) if found.type is fs.FileType.File else None
