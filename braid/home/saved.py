"""Savepoints of applications: what a home keeps of one at a moment, so that it can go on from there.

    savepoints/<name>/savepoint.json              what this module is about; written last    (sealed)
    savepoints/<name>/states/<stage>.json         what a stateful stage goes on from         (sealed)
    savepoints/<name>/checkpoints/<query>/        how far a query without a state has read
    savepoints/<name>/log/<category>/             the categories that its stages hand rows over by

The rows are files of the log under a second name: a savepoint takes no room as long as the log has them, too,
and has them for itself when retention takes them from the log.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from pydantic import Field

from braid.core.errors import BraidError, RunError
from braid.home.files import write_text
from braid.home.paths import Home
from braid.home.records import Record
from braid.home.status import Status
from braid.log.layout import TEMP_PREFIX, check_name
from braid.log.log import Log
from braid.log.sealed import check_format, seal, unseal

FORMAT = 1
_RECORD = "savepoint.json"


class SavedQuery(Record):
    """A query at the moment of a savepoint.

    Parameters
    ----------
    batch
        Its last micro-batch that was done, of all generations; -1 if there was none.
    first_batch
        The first micro-batch of its generation.
    shards, partitions
        How its state was cut; None if it has none.
    commit
        The last commit of the category that it writes; None if it writes none.
    """

    batch: int
    first_batch: int = 0
    shards: int | None = None
    partitions: int | None = None
    commit: int | None = None

    @property
    def numbered(self) -> int:
        """That micro-batch as the checkpoint of the generation numbers it; -1 if the generation had none."""
        return self.batch - self.first_batch


class Saved(Record):
    """A savepoint.

    Parameters
    ----------
    name
        Its name.
    application
        Whose it is.
    taken
        When, in seconds since the epoch.
    plan, options
        What ran, and the options that it ran with, as the home has them.
    queries
        By name.
    status
        What the application was doing.
    """

    format: int = FORMAT
    name: str
    application: str
    taken: float
    plan: dict[str, Any]
    options: Any = None
    queries: dict[str, SavedQuery] = Field(default_factory=dict)
    status: Status | None = None

    @property
    def pending(self) -> int:
        """Rows that waited for others."""
        stages = {} if self.status is None else self.status.stages
        return sum(stage.last.counters.pending for stage in stages.values() if stage.last is not None)


class SavedFolder:
    """The folder of a savepoint.

    Parameters
    ----------
    root
        Its path.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def of(cls, home: Home, name: str) -> SavedFolder:
        """The folder of a savepoint in a home, there or not."""
        return cls(home.savepoints / check_name(name, "savepoint"))

    @classmethod
    def check_free(cls, home: Home, name: str) -> None:
        """Raise a `BraidError` if a savepoint cannot have a name, or one has it."""
        if cls.of(home, name).root.exists():
            raise RunError(f"savepoint {name!r} exists", hint="choose another name, or drop it first")

    @classmethod
    def draft(cls, home: Home, name: str) -> SavedFolder:
        """An empty folder for what is to become a savepoint."""
        found = cls(home.savepoints / f"{TEMP_PREFIX}{check_name(name, 'savepoint')}")
        shutil.rmtree(found.root, ignore_errors=True)
        found.root.mkdir(parents=True)
        return found

    @property
    def log(self) -> Log:
        """Its categories."""
        return Log(self.root / "log")

    def state(self, stage: str) -> Path:
        """The state of a stage."""
        return self.root / "states" / f"{check_name(stage, 'stage')}.json"

    def checkpoint(self, query: str) -> Path:
        """How far a query has read."""
        return self.root / "checkpoints" / check_name(query, "query")

    def exists(self) -> bool:
        """Whether it is there, and whole."""
        return (self.root / _RECORD).exists()

    def write(self, saved: Saved) -> None:
        """Write the record of the savepoint."""
        write_text(self.root / _RECORD, seal(saved.model_dump(mode="json")).decode())

    def read(self) -> Saved:
        """The record; a `BraidError` says what is wrong with it."""
        path = self.root / _RECORD
        record = json.loads(unseal(path.read_bytes(), str(path)))
        check_format(record.get("format"), str(path), FORMAT)
        return Saved.of_json(record, where=str(path))

    def publish(self, home: Home, name: str) -> SavedFolder:
        """Give a draft its name."""
        final = SavedFolder.of(home, name)
        self.root.rename(final.root)
        descriptor = os.open(home.savepoints, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return final

    def drop(self) -> None:
        """Remove it; what is killed in between leaves nothing that looks like a savepoint."""
        trash = self.root.with_name(f"{TEMP_PREFIX}{self.root.name}")
        shutil.rmtree(trash, ignore_errors=True)
        self.root.rename(trash)
        shutil.rmtree(trash)


def saved_names(home: Home) -> list[str]:
    """Names of the savepoints of a home."""
    folder = home.savepoints
    found = folder.iterdir() if folder.is_dir() else ()
    return sorted(path.name for path in found if (path / _RECORD).exists() and path.name[0] != ".")


def find_saved(home: Home, name: str) -> tuple[SavedFolder, Saved]:
    """A savepoint by its name; `RunError` if there is none."""
    names = saved_names(home)
    if name not in names:
        raise RunError(
            f"there is no savepoint {name!r}",
            where=str(home.savepoints),
            hint=f"savepoints: {', '.join(names) or 'none; `braid savepoint APP` makes one'}",
        )
    folder = SavedFolder.of(home, name)
    try:
        return folder, folder.read()
    except BraidError as error:
        raise RunError(f"savepoint {name!r} cannot be read: {error}", where=str(folder.root)) from error
