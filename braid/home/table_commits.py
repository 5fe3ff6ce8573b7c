"""What has been published to a warehouse table: one record per commit, and a list of the old ones.

The rows of a table are its Parquet files, and whoever reads it needs nothing else: records are for writers.
`_commits/<stage>-<commit>.json` is created once; then what it names is moved from `_staging` into the table.
A micro-batch that is repeated finds the record, and publishes nothing again.

Of old commits nobody asks more than whether they were published. So their records are folded: their numbers
are added to `_commits/folded.json`, then the records go. The table's files are not touched.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Literal

from pydantic import Field

from braid.core.errors import RunError
from braid.home.locks import exclusive
from braid.home.records import Record
from braid.log import durable

STAGING = "_staging"
"""Folder of files that are not in the table yet; no pattern for Parquet files matches in it."""
COMMITS = "_commits"
LOCK_FILE = ".lock"
_FOLDED = "folded.json"
_RECORD = re.compile(r"(.+)-(\d{8,})\.json")
KEPT = 100
"""Commits of each stage that keep their records. Only the last one is ever repeated; the others are there for
people, and for versions that do not know of folding."""
LEAST = 100
"""Records for which it pays to write the list anew."""

Moves = dict[str, str]
"""Names of staged files, and where in the table each of them goes."""
Range = tuple[int, int]
"""The first and the last of consecutive commits."""


class FoldedCommits(Record):
    """The content of `folded.json`: commits that were published and have no record, by stage."""

    format: Literal[1] = 1
    stages: dict[str, list[Range]] = Field(default_factory=dict)

    def has(self, stage: str, commit: int) -> bool:
        """Whether a commit is one of them."""
        return any(first <= commit <= last for first, last in self.stages.get(stage, ()))

    def last(self, stage: str) -> int:
        """The last one of a stage; -1 if it has none."""
        return max((last for _, last in self.stages.get(stage, ())), default=-1)

    def including(self, commits: Iterable[tuple[str, int]]) -> FoldedCommits:
        """These commits and others."""
        stages = {stage: list(ranges) for stage, ranges in self.stages.items()}
        for stage, commit in commits:
            stages.setdefault(stage, []).append((commit, commit))
        return FoldedCommits(stages={stage: _joined(ranges) for stage, ranges in stages.items()})


class TableCommits:
    """The commits of the table in a folder."""

    def __init__(self, folder: Path) -> None:
        self._root = folder / COMMITS
        self._staging = folder / STAGING

    def publish(self, stage: str, commit: int, moves: Moves) -> Moves | None:
        """Have a commit name files, unless it does already.

        Returns what it names, which is something else if it was published before; None if it is an old one
        that is folded: then all that it named has been moved long since.
        """
        path = self._record(stage, commit)
        created = _create(path, moves)
        # Asked afterwards: a record is removed when the list has it, so one that could be created and is not
        # in the list is really new. Somebody ended right here leaves a record that counts for nothing.
        if self._folded().has(stage, commit):
            if created:
                durable.remove(str(path))
            return None
        return moves if created else self.read(stage, commit)

    def read(self, stage: str, commit: int) -> Moves | None:
        """What a commit names; None if it has no record."""
        path = self._record(stage, commit)
        try:
            found = json.loads(path.read_text())
        except FileNotFoundError:
            return None
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise RunError(
                "not the record of a commit", where=str(path), hint="restore the file from a backup"
            )
        return {str(name): str(target) for name, target in found.items()}

    def last(self, stage: str) -> int:
        """The last commit of a stage; -1 if it has none."""
        recorded = self.recorded().get(stage, [-1])
        # Read after the records were listed: what has been removed before that is in the list.
        return max(recorded[-1], self._folded().last(stage))

    def recorded(self) -> dict[str, list[int]]:
        """The commits that have records, in order, by stage."""
        found: dict[str, list[int]] = {}
        for name in _names(self._root):
            if match := _RECORD.fullmatch(name):
                found.setdefault(match[1], []).append(int(match[2]))
        return {stage: sorted(commits) for stage, commits in found.items()}

    def fold(self, most: int, kept: int = KEPT, least: int = LEAST) -> int:
        """Put old records into the list; how many those were.

        Parameters
        ----------
        most
            So many at the most.
        kept
            How many records each stage keeps; the last one must stay, since a sweep goes by it.
        least
            If there are fewer, nothing is done.
        """
        if not self._root.is_dir():
            return 0
        with exclusive(self._root / LOCK_FILE) as mine:
            if not mine:
                return 0
            folded = self._folded()
            gone = list(islice(self._foldable(folded, max(kept, 1)), most))
            if len(gone) < least:
                return 0
            self._write(folded.including(gone))
            for stage, commit in gone:
                durable.remove(str(self._record(stage, commit)))
            return len(gone)

    def _foldable(self, folded: FoldedCommits, kept: int) -> Iterator[tuple[str, int]]:
        """Old commits of which nothing is left to move."""
        staged = set(_names(self._staging))
        for stage, commits in self.recorded().items():
            for commit in commits[:-kept]:
                if folded.has(stage, commit) or staged.isdisjoint(self.read(stage, commit) or ()):
                    yield stage, commit

    def _folded(self) -> FoldedCommits:
        return FoldedCommits.read(self._root / _FOLDED) or FoldedCommits()

    def _write(self, folded: FoldedCommits) -> None:
        fresh = self._root / f".{uuid.uuid4().hex}.tmp"
        durable.write(str(fresh), folded.model_dump_json().encode())
        durable.replace(str(fresh), str(self._root / _FOLDED))
        durable.sync(str(self._root))

    def _record(self, stage: str, commit: int) -> Path:
        return self._root / f"{stage}-{commit:08d}.json"


def _create(path: Path, value: Mapping[str, str]) -> bool:
    """Write a file that did not exist, whole; False if it does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{uuid.uuid4().hex}.tmp")
    durable.write(str(fresh), json.dumps(value).encode())
    try:
        durable.link(str(fresh), str(path))
    except FileExistsError:
        return False
    finally:
        durable.remove(str(fresh))
    durable.sync(str(path.parent))
    return True


def _joined(ranges: Iterable[Range]) -> list[Range]:
    """The same commits in as few ranges as possible, in order."""
    found: list[Range] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return found


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries]
    except FileNotFoundError:
        return []
