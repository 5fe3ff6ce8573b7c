"""The home of applications: the log, and a folder per application with its plan, checkpoints and metrics."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from braid.core.errors import PermanentError, RunError
from braid.home.control import ANEW, Generation
from braid.home.locks import take
from braid.log.layout import check_name
from braid.log.log import Log

DEFAULT = "braid-home"
"""Folder that is used when no home is named, in the working directory."""
DEAD_LETTER = "dead_letter"
_TRIES, _PAUSE = 100, 0.01
"""How often a start tries to take the application's lock, and seconds between two tries."""


def default_home() -> str:
    """The home to use when none is named: `$BRAID_HOME`, or `braid-home` in the working directory."""
    return os.environ.get("BRAID_HOME", DEFAULT)


@dataclass(frozen=True)
class Home:
    """A folder that the driver and all executors see."""

    root: Path

    @classmethod
    def at(cls, root: HomeLike = None) -> Home:
        """The home at a path; it is made when something is first written."""
        if isinstance(root, Home):
            return root
        return cls(Path(root or default_home()).expanduser().absolute())

    @classmethod
    def existing(cls, root: HomeLike = None) -> Home:
        """The home at a path, which must have been written to: to list what is there, not to begin."""
        home = cls.at(root)
        if not home.root.is_dir():
            raise RunError(
                "there is no home",
                where=str(home.root),
                hint="name one with --home or $BRAID_HOME; `braid publish` and `braid run` make one",
            )
        return home

    @property
    def log_root(self) -> str:
        """Where the log's categories are."""
        return str(self.root / "log")

    @property
    def savepoints(self) -> Path:
        """Savepoints of applications, one folder each: see `braid.home.saved`."""
        return self.root / "savepoints"

    def log(self) -> Log:
        """The log."""
        return Log(self.log_root)

    def application(self, name: str) -> AppHome:
        """The folder of an application."""
        return AppHome(self, check_name(name, "application"))

    def applications(self) -> list[AppHome]:
        """All applications that were ever started here, by name."""
        folder = self.root / "apps"
        names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
        return [self.application(name) for name in names]


HomeLike = Home | str | Path | None
"""A home, its path, or None for the default one."""


@dataclass(frozen=True)
class AppHome:
    """The folder of one application."""

    home: Home
    name: str

    @property
    def root(self) -> Path:
        """The folder itself."""
        return self.home.root / "apps" / self.name

    @property
    def plan_file(self) -> Path:
        """The plan that runs, or ran last, as JSON."""
        return self.root / "plan.json"

    @property
    def versions(self) -> Path:
        """Plans that it has run, one file each: see `braid.home.versions`."""
        return self.root / "versions"

    @property
    def updating_file(self) -> Path:
        """Tells of an update that must be ended before anything else: see `braid.home.control.Updating`."""
        return self.root / "control" / "updating.json"

    @property
    def next_plan_file(self) -> Path:
        """The plan that such an update leads to, as JSON."""
        return self.root / "next.plan.json"

    @property
    def status_file(self) -> Path:
        """What the application is doing, with the last metrics of every stage, as JSON."""
        return self.root / "status.json"

    @property
    def log_file(self) -> Path:
        """What happened to the driver's queries, as JSON lines."""
        return self.root / "braid.log"

    @property
    def dead_letter(self) -> str:
        """The category of records that could not be used."""
        return f"{self.name}.{DEAD_LETTER}"

    def checkpoint(self, stage: str) -> Path:
        """Spark's checkpoint of a stage: that of its generation."""
        generation = self.generation(stage)
        return self.checkpoint_of(stage, 0 if generation is None else generation.number)

    def checkpoint_of(self, stage: str, generation: int) -> Path:
        """Spark's checkpoint of a generation of a stage."""
        name = check_name(stage, "stage")
        return self.root / "checkpoints" / (f"{name}@{generation}" if generation else name)

    def generation(self, stage: str) -> Generation | None:
        """How the state of a stage is cut; None if it has none, or has never been started."""
        path = self.control_file(stage, "state")
        try:
            return Generation.read(path)
        except RunError:
            raise PermanentError(
                f"the file that says how the state of stage {stage!r} is cut is damaged",
                where=str(path),
                hint=f"restore it from a backup; or {ANEW}",
            ) from None

    @property
    def save_file(self) -> Path:
        """Where others ask the running application for a savepoint."""
        return self.root / "control" / "save.json"

    @property
    def saved_file(self) -> Path:
        """Where it answers."""
        return self.root / "control" / "saved.json"

    @property
    def stop_file(self) -> Path:
        """Where others ask the running application to end."""
        return self.root / "control" / "stop.json"

    @property
    def stopping_file(self) -> Path:
        """Where it answers."""
        return self.root / "control" / "stopping.json"

    @property
    def restoring_file(self) -> Path:
        """Tells of a savepoint that is being restored, and by which this application begins."""
        return self.root / "control" / "restoring.json"

    @property
    def lease_file(self) -> Path:
        """Which process may write for the application: see `braid.home.lease`."""
        return self.root / "control" / "lease.json"

    @property
    def savepoints(self) -> Path:
        """Savepoints of stages, one file each."""
        return self.root / "savepoints"

    def metrics_file(self, stage: str) -> Path:
        """Metrics of a stage: one JSON line per micro-batch."""
        return self.root / "metrics" / f"{check_name(stage, 'stage')}.jsonl"

    def totals_file(self, stage: str) -> Path:
        """What a stage has counted over all its runs, as JSON."""
        return self.root / "metrics" / f"{check_name(stage, 'stage')}.totals.json"

    @property
    def counts_folder(self) -> Path:
        """Where sinks leave what micro-batches have counted, until the driver takes it."""
        return self.root / "metrics" / ".counts"

    @property
    def options_file(self) -> Path:
        """The options of the last run, as JSON."""
        return self.root / "options.json"

    @property
    def cadence_file(self) -> Path:
        """How often the stages are to run, as the driver tells their sources."""
        return self.root / "control" / "cadence.json"

    @property
    def rescale_file(self) -> Path:
        """Where others ask the running application for another layout."""
        return self.root / "control" / "rescale.json"

    @property
    def rescaled_file(self) -> Path:
        """Where it answers."""
        return self.root / "control" / "rescaled.json"

    def control_file(self, stage: str, what: str) -> Path:
        """A small file by which the driver and a stage's source, in processes of their own, talk."""
        return self.root / "control" / f"{check_name(stage, 'stage')}.{what}.json"

    @contextmanager
    def running(self, sleep: Callable[[float], None] = time.sleep) -> Iterator[None]:
        """Hold the application's lock, which ends with the process; raise `RunError` if another has it.

        Whoever asks `is_running` has the lock for a moment, too. So it is tried for a second.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        with self._lock_file.open("a+") as lock:
            for _ in range(_TRIES):
                if take(lock):
                    break
                sleep(_PAUSE)
            else:
                raise RunError(
                    f"application {self.name!r} is running already",
                    where=str(self.root),
                    hint="stop it first, or use another home",
                )
            if not _is_at(lock, self._lock_file):
                raise RunError(
                    f"application {self.name!r} was dropped just now",
                    where=str(self.root),
                    hint="start it again, and it begins anew",
                )
            yield

    def is_running(self) -> bool:
        """Whether a process holds the application's lock."""
        try:
            lock = self._lock_file.open()
        except FileNotFoundError:
            return False
        with lock:
            # A shared lock: several may ask at once, and none takes another for the application.
            return not take(lock, shared=True)

    @property
    def _lock_file(self) -> Path:
        return self.root / "run.lock"


def _is_at(file: TextIO, path: Path) -> bool:
    """Whether an open file is still the one at its path."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
