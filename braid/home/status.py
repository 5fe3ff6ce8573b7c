"""What an application is doing, or did last: one file, from which `braid status` tells."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, field_validator

from braid.core.counters import Counters
from braid.home.metrics import MicroBatch
from braid.home.pacing import Pacing
from braid.home.paths import AppHome
from braid.home.records import CountersField, Record


class RunState(StrEnum):
    """Where an application is in its life."""

    STARTING = "starting"
    RUNNING = "running"
    DRAINING = "draining"
    STOPPED = "stopped"
    DRAINED = "drained"
    FAILED = "failed"
    KILLED = "killed"
    """Its process is gone, and has not said why."""

    @property
    def active(self) -> bool:
        """Whether a process should be there."""
        return self in (RunState.STARTING, RunState.RUNNING, RunState.DRAINING)


class StageStatus(Record):
    """A stage of an application.

    Parameters
    ----------
    kind, what
        `slicer` or `join`, and the stage in a few words.
    totals
        What adds up, since the application was started.
    last
        The last micro-batch; None before the first one.
    pacing
        What its inputs are doing, if the stage paces them.
    trouble
        What keeps it from getting ahead, if anything does: a full disk, or a micro-batch that takes too long.
    """

    kind: str
    what: str = ""
    totals: CountersField = Field(default_factory=Counters)
    last: MicroBatch | None = None
    pacing: Pacing | None = None
    trouble: str | None = None

    @property
    def held_up(self) -> str | None:
        """Why it reads less than there is, if it does."""
        return self.trouble or (None if self.pacing is None else self.pacing.why)

    @field_validator("last", mode="before")
    @classmethod
    def _no_micro_batch(cls, value: object) -> object:
        """The first version wrote an empty object before the first micro-batch."""
        return value or None


class Status(Record):
    """An application.

    Parameters
    ----------
    application
        Its name.
    state
        Where it is in its life.
    error
        What it failed with.
    pid
        The process of its driver.
    started, updated
        When that was started, and when this was written, in seconds.
    stages
        By name.
    troubles
        What its upkeep could not do, and tries again.
    """

    application: str
    state: RunState
    error: str | None = None
    pid: int | None = None
    started: float = 0.0
    updated: float = 0.0
    stages: dict[str, StageStatus] = Field(default_factory=dict)
    troubles: tuple[str, ...] = ()


def read_status(home: AppHome) -> Status | None:
    """The status of an application, `killed` if its process is gone; None if it was never started."""
    status = Status.read(home.status_file)
    if status is not None and status.state.active and not home.is_running():
        return status.model_copy(update={"state": RunState.KILLED})
    return status
