"""The home of applications: the log, and a folder per application with its plan, checkpoints and metrics."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from braid.core.errors import RunError
from braid.log.layout import check_name
from braid.log.log import Log

DEFAULT = "braid-home"
"""Folder that is used when no home is named, in the working directory."""
DEAD_LETTER = "dead_letter"


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
        """Spark's checkpoint of a stage."""
        return self.root / "checkpoints" / check_name(stage, "stage")

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

    def control_file(self, stage: str, what: str) -> Path:
        """A small file by which the driver and a stage's source, in processes of their own, talk."""
        return self.root / "control" / f"{check_name(stage, 'stage')}.{what}.json"

    @contextmanager
    def running(self) -> Iterator[None]:
        """Hold the application's lock, which ends with the process; raise `RunError` if another has it."""
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / "run.lock").open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunError(
                    f"application {self.name!r} is running already",
                    where=str(self.root),
                    hint="stop it first, or use another home",
                ) from None
            yield

    def is_running(self) -> bool:
        """Whether a process holds the application's lock."""
        path = self.root / "run.lock"
        if not path.exists():
            return False
        with path.open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False
