"""What an application is doing, or did last: one file, from which `braid status` tells."""

from __future__ import annotations

import time
from enum import StrEnum

from pydantic import Field, computed_field, field_validator

from braid.core.counters import Counters
from braid.core.times import FAR
from braid.home.backlog import backlog
from braid.home.control import ReadUpTo
from braid.home.metrics import MicroBatch
from braid.home.pacing import Pacing
from braid.home.paths import AppHome
from braid.home.records import CountersField, Record
from braid.home.totals import read_totals


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


class Period(Record):
    """What a stage has counted of late.

    Parameters
    ----------
    minutes
        The time asked for.
    seconds
        The time covered: less if the application was started since.
    counters
        What was counted in that time.
    """

    minutes: int
    seconds: float
    counters: CountersField = Field(default_factory=Counters)

    @property
    def rows_in_per_second(self) -> float:
        """Rows read per second."""
        return self.counters.rows_in / self.seconds if self.seconds > 0 else 0.0

    @property
    def rows_out_per_second(self) -> float:
        """Rows written per second."""
        return self.counters.rows_out / self.seconds if self.seconds > 0 else 0.0

    @computed_field  # type: ignore[prop-decorator]
    @property
    def match_rate(self) -> dict[str, float]:
        """Share of the rows decided in that time that had a match, by input, where that is known."""
        return match_rates(self.counters)


class InputStatus(Record):
    """An input of a stage.

    Parameters
    ----------
    category, time
        The category, and the column of it whose times commits tell; None if it is none of the log's.
    doing
        Such as `reading`, `paused` or `idle`, if the stage paces its inputs.
    stream_time
        In microseconds, if it has one.
    lag_ms
        How far stream time is behind the wall clock, at the time of asking.
    rows_behind, more_behind
        Rows that are published and not read, and whether there are even more; None if that is not known.
    behind_ms
        The newest event time published, less the newest one read; None if that is not known.
    """

    category: str | None = None
    time: str | None = None
    doing: str | None = None
    stream_time: int | None = None
    lag_ms: int | None = None
    rows_behind: int | None = None
    more_behind: bool = False
    behind_ms: int | None = None


class StageStatus(Record):
    """A stage of an application.

    Parameters
    ----------
    kind, what
        `slicer` or `join`, and the stage in a few words.
    totals, since
        What adds up, over all runs since the stage's checkpoint began, and when counting began, in seconds.
    run
        What has been counted since the application was last started.
    recent
        What has been counted in the last 1, 5 and 15 minutes; empty if it is not running.
    inputs
        By name; of all that the stage reads from the log.
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
    since: float = 0.0
    run: CountersField = Field(default_factory=Counters)
    recent: tuple[Period, ...] = ()
    inputs: dict[str, InputStatus] = Field(default_factory=dict)
    last: MicroBatch | None = None
    pacing: Pacing | None = None
    trouble: str | None = None

    @property
    def held_up(self) -> str | None:
        """Why it reads less than there is, if it does."""
        return self.trouble or (None if self.pacing is None else self.pacing.why)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def match_rate(self) -> dict[str, float]:
        """Share of all rows decided that had a match, by input, where that is known."""
        return match_rates(self.totals)

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


def match_rates(counters: Counters) -> dict[str, float]:
    """Share of the rows decided that had a match, by input, where that is known."""
    rates = {name: counted.match_rate for name, counted in counters.inputs.items()}
    return {name: rate for name, rate in rates.items() if rate is not None}


def read_status(home: AppHome) -> Status | None:
    """The status of an application as of now, `killed` if its process is gone; None if it never ran."""
    status = Status.read(home.status_file)
    if status is None:
        return None
    if status.state.active and not home.is_running():
        status = _killed(home, status)
    return as_of(home, status, time.time())


def _killed(home: AppHome, status: Status) -> Status:
    """What there is to say of an application that could not say it: its totals are in its home."""
    stages = {}
    for name, stage in status.stages.items():
        totals = read_totals(home, name)
        known = {"totals": totals.counters, "since": totals.since} if totals is not None else {}
        stages[name] = stage.model_copy(update={**known, "recent": ()})
    return status.model_copy(update={"state": RunState.KILLED, "stages": stages})


def as_of(home: AppHome, status: Status, now: float) -> Status:
    """A status with what changes by itself: how far inputs are behind the wall clock, and the log."""
    stages = {}
    for name, stage in status.stages.items():
        read = ReadUpTo.read(home.control_file(name, "read"))
        following = {} if read is None else read.following
        inputs = {one: _as_of(home, seen, following.get(one), now) for one, seen in stage.inputs.items()}
        stages[name] = stage.model_copy(update={"inputs": inputs})
    return status.model_copy(update={"stages": stages})


def _as_of(home: AppHome, seen: InputStatus, following: tuple[int, int] | None, now: float) -> InputStatus:
    known: dict[str, object] = {}
    if seen.stream_time is not None and abs(seen.stream_time) < FAR:
        known["lag_ms"] = round((now * 1_000_000 - seen.stream_time) / 1000)
    if seen.category is not None and following is not None:
        left = backlog(home.home.log_root, seen.category, following, seen.time)
        if left is not None:
            known |= {"rows_behind": left.rows, "more_behind": left.more}
            known |= {} if left.micros is None else {"behind_ms": left.micros // 1000}
    return seen.model_copy(update=known)
