"""Which files of a folder a query has read, as Spark's own source of files remembers it.

Spark notes in `sources/0/<number>` of a checkpoint which files a micro-batch reads, and every tenth time, in
`<number>.compact`, all that were ever read. What the driver slices itself is noted in the same way, so that
whoever goes on, Spark or the driver, reads every file once.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from braid.core.errors import RunError
from braid.core.times import DAY, HOUR
from braid.home.control import ANEW
from braid.home.files import write_text
from braid.spark.paths import escaped, unescaped

INTERVAL = 10
"""Every so many notes one has all files; Spark's default."""
MAX_AGE = 7 * DAY // 1000
"""Milliseconds by which a file may be older than the latest one and still be read; Spark's default."""
GONE = HOUR // 1000
"""Milliseconds by which a file must be older than the latest one to be forgotten when it is gone."""


@dataclass(frozen=True)
class Seen:
    """A file that has been read, or is being read.

    Parameters
    ----------
    path
        As Spark writes it: with a scheme, and escaped.
    timestamp
        When it was last changed, in milliseconds.
    number
        The note that it is in.
    """

    path: str
    timestamp: int
    number: int

    def to_line(self) -> str:
        """A line of a note."""
        return json.dumps(
            {"path": self.path, "timestamp": self.timestamp, "batchId": self.number},
            separators=(",", ":"),
            ensure_ascii=False,
        )

    @classmethod
    def from_line(cls, line: str) -> Seen:
        """Read back what `to_line` gave."""
        value = json.loads(line)
        return cls(value["path"], value["timestamp"], value["batchId"])

    @property
    def plain_path(self) -> str:
        """The path without escapes."""
        return unescaped(self.path)

    @property
    def name(self) -> str:
        """Its name in the folder."""
        return unescaped(self.path.rpartition("/")[2])


@dataclass(frozen=True)
class Found:
    """A file that is there: its name, when it was last changed (in milliseconds), and its size."""

    name: str
    timestamp: int
    size: int


class SeenFiles:
    """The files of one folder that a query has read.

    Parameters
    ----------
    notes
        The folder of notes in a checkpoint.
    folder
        The folder that is read, absolute, and without links to the folder above (`..`).
    """

    def __init__(self, notes: Path, folder: Path) -> None:
        self._notes = notes
        self._folder = folder
        self._seen: dict[str, Seen] = {}
        self._names: set[str] = set()
        self._latest = 0
        self.last = -1
        """The last note; -1 if there is none."""
        self._load()

    def new(self) -> list[Found] | None:
        """Files that have not been read, oldest first; None if there is what only Spark reads.

        That is, folders in the folder, and names that are no text.
        """
        found = []
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.name in self._names or is_hidden(entry.name):
                    continue
                if entry.is_dir() or not _is_text(entry.name):
                    return None
                try:
                    status = entry.stat()
                except FileNotFoundError:
                    continue
                if status.st_size == 0:
                    continue  # as Spark does: it may be about to be written
                found.append(Found(entry.name, status.st_mtime_ns // 1_000_000, status.st_size))
        recent = [file for file in found if file.timestamp >= self._latest - MAX_AGE]
        return sorted(recent, key=lambda file: (file.timestamp, file.name))

    def add(self, files: list[Found]) -> None:
        """Note that files are read now."""
        number = self.last + 1
        added = [Seen(self._uri(file.name), file.timestamp, number) for file in files]
        whole = (number + 1) % INTERVAL == 0
        if whole:
            self._forget()
            self._write(f"{number}.compact", [*self._seen.values(), *added])
        else:
            self._write(str(number), added)
        self._take(added)
        self.last = number
        if whole:
            self._clear(number - INTERVAL)

    def check(self, last: int) -> None:
        """Raise `RunError` unless notes go as far as one that was read."""
        if self.last < last:
            raise self._unusable(str(last), "is missing")

    def between(self, before: int, last: int) -> list[Seen]:
        """The files of the notes after one up to another one, in order."""
        self.check(last)
        return [seen for seen in self._seen.values() if before < seen.number <= last]

    def _uri(self, name: str) -> str:
        return f"file://{escaped(f'{self._folder}/{name}')}"

    def _take(self, files: list[Seen]) -> None:
        for seen in files:
            self._seen[seen.path] = seen
            self._latest = max(self._latest, seen.timestamp)
            self._names.add(seen.name)

    def _load(self) -> None:
        """Read the last note of all files, and those after it."""
        names = [path.name for path in self._notes.iterdir()] if self._notes.is_dir() else []
        whole = max((int(name[:-8]) for name in names if name.removesuffix(".compact") != name), default=-1)
        later = sorted(int(name) for name in names if name.isdigit() and int(name) > whole)
        if whole >= 0:
            self._take(self._read(f"{whole}.compact"))
        for number in later:
            self._take(self._read(str(number)))
        self.last = max([whole, *later])
        missing = set(range(whole + 1, self.last)) - set(later)
        if missing:
            raise self._unusable(str(min(missing)), "is missing")
        self._clear(whole - INTERVAL)

    def _read(self, name: str) -> list[Seen]:
        try:
            version, *lines = (self._notes / name).read_text().splitlines()
            if version != "v1":
                raise ValueError(version)
            return [Seen.from_line(line) for line in lines]
        except (ValueError, KeyError, TypeError):
            raise self._unusable(name, "is damaged or cut off") from None

    def _unusable(self, name: str, how: str) -> RunError:
        return RunError(
            f"the file of the checkpoint {how}",
            where=str(self._notes / name),
            hint=f"restore it from a backup; or {ANEW}",
        )

    def _write(self, name: str, files: list[Seen]) -> None:
        write_text(self._notes / name, "\n".join(["v1", *(seen.to_line() for seen in files)]))

    def _forget(self) -> None:
        """Forget files that are gone, but for recent ones.

        Those that are there may have to be read again. A folder that is empty may be one that is not mounted
        right now.
        """
        there = set(os.listdir(self._folder))  # noqa: PTH208  names only
        gone = self._latest - GONE if there else 0
        self._seen = {
            path: seen for path, seen in self._seen.items() if seen.timestamp >= gone or seen.name in there
        }
        self._names = {seen.name for seen in self._seen.values()}

    def _clear(self, before: int) -> None:
        """Remove notes that nobody will read: those before one that has all files."""
        for path in list(self._notes.iterdir()) if self._notes.is_dir() else []:
            number = path.name.removesuffix(".compact").removesuffix(".crc").lstrip(".").split(".")[0]
            if number.isdigit() and int(number) < before:
                path.unlink(missing_ok=True)


def is_hidden(name: str) -> bool:
    """Whether Spark passes over a file or a folder of this name."""
    return name.startswith(".") or name.endswith("._COPYING_") or (name.startswith("_") and "=" not in name)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
