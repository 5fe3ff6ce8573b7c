"""What applications achieve, and what they use: of each a line of figures, of the last minute or of now."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from braid.home.records import Record

_FIGURES: dict[str, Any] = {
    "rows_in": 300.0,
    "rows_out": 150.0,
    "seconds": 62.5,
    "backlog": 1200,
    "more_behind": False,
    "delay": 4.2,
    "match_rate": 0.42,
    "application": "search_app",
    "state": "running",
    "version": 2,
    "restarts": 0,
    "pid": 4711,
}
_PROCESS: dict[str, Any] = {
    "pid": 4711,
    "applications": ["search_app"],
    "cpu": 0.31,
    "memory": 1_400_000_000,
}
_TOP: dict[str, Any] = {"at": 1_763_456_789.25, "applications": [_FIGURES], "processes": [_PROCESS]}


class RunFigures(Record):
    """What an application achieves; None is what is not known, or what nobody has.

    Parameters
    ----------
    rows_in, rows_out
        Rows per second that it reads of its inputs, and that it stores, in the last minute.
    seconds
        How long that minute is: shorter after a start.
    backlog, more_behind
        Rows that are published and that its stages have not read, and whether there are even more.
    delay
        Seconds that the stream time of the input that is behind most is behind the clock.
    match_rate
        Share of the left rows with a match, of those that joins have decided of late.
    held_up
        Why it reads less than there is, if it does.
    """

    rows_in: float | None = None
    rows_out: float | None = None
    seconds: float | None = None
    backlog: int | None = None
    more_behind: bool = False
    delay: float | None = None
    match_rate: float | None = None
    held_up: str | None = None


class Figures(RunFigures):
    """An application, with its figures.

    Parameters
    ----------
    application, state, version
        Which one, what it is doing, and which version runs.
    pool
        Of which pool it is.
    restarts
        Starts within the last half hour that were not asked for.
    pid
        The process that runs it: see `ProcessFigures`.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [_FIGURES]})

    application: str
    state: str
    version: int | None = None
    pool: str | None = None
    restarts: int = 0
    pid: int | None = None


class ProcessFigures(Record):
    """What a process that runs applications uses, with all that it has started.

    Parameters
    ----------
    pid, applications
        The process, and what it runs: several applications if they share it.
    pool
        Of which pool it is.
    cpu
        Cores, since somebody looked last; None if nobody has.
    memory
        Bytes, of at most half a minute ago.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [_PROCESS]})

    pid: int
    applications: list[str]
    pool: str | None = None
    cpu: float | None = None
    memory: int | None = None


class Top(Record):
    """All applications, with their figures.

    Parameters
    ----------
    at
        When, in seconds since the epoch.
    applications, processes
        By name; and what runs them.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [_TOP]})

    at: float
    applications: list[Figures] = Field(default_factory=list)
    processes: list[ProcessFigures] = Field(default_factory=list)
