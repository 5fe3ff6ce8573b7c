"""What to do next with the driver of an application: one careful step towards what should be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from braid.home.service import Driver, Job
from braid.service.decide.backoff import LIMITS, Limits, Run, next_start


@dataclass(frozen=True)
class Wanted:
    """What should run.

    Parameters
    ----------
    version
        The version; None if nothing should.
    restart
        Counts how often somebody has asked for another start.
    """

    version: int | None
    restart: int = 0


@dataclass(frozen=True)
class Seen:
    """What is there.

    Parameters
    ----------
    job
        What was given to the last driver, with the `restart` that it was started for.
    restart
        See `Wanted`.
    driver
        What the driver of this job has said; None if it has said nothing yet.
    alive
        Whether its process is there.
    stopping
        Since when it has been told to stop.
    waits
        What keeps a driver that has said nothing yet from being there.
    """

    job: Job | None = None
    restart: int = 0
    driver: Driver | None = None
    alive: bool = False
    stopping: float | None = None
    waits: str | None = None


class What(StrEnum):
    """A step."""

    NOTHING = "nothing"
    START = "start"
    STOP = "stop"
    """In good order."""
    KILL = "kill"
    CLOSE = "close"
    """Take note that a run is over."""


@dataclass(frozen=True)
class Step:
    """What to do, why, and, if there is something to wait for, until when.

    Parameters
    ----------
    what, why
        The step.
    until
        When to look again at the latest; None is at any time.
    failed
        Whether a run that is over had not been told to end.
    """

    what: What
    why: str = ""
    until: float | None = None
    failed: bool = False


def decide(
    wanted: Wanted,
    seen: Seen,
    open_run: bool,
    runs: Sequence[Run],
    now: float,
    jitter: float = 0.5,
    limits: Limits = LIMITS,
) -> Step:
    """The next step.

    Parameters
    ----------
    wanted, seen
        What should run, and what is there.
    open_run
        Whether the registry has a run of this job that it does not know the end of.
    runs
        Ended runs of the wanted version since somebody last asked for a start, oldest first.
    now, jitter
        The clock; and a random number between 0 and 1.
    limits
        Time limits.
    """
    if seen.job is not None and open_run:
        return _while_running(wanted, seen, seen.job, now, limits)
    if wanted.version is None:
        return Step(What.NOTHING)
    at = next_start(runs, jitter, limits)
    if at is None:
        return Step(What.NOTHING, "its program has to be mended")
    return Step(What.START) if at <= now else Step(What.NOTHING, "waiting for the next start", until=at)


def _while_running(wanted: Wanted, seen: Seen, job: Job, now: float, limits: Limits) -> Step:
    driver = seen.driver
    fits = (wanted.version, wanted.restart) == (job.version, seen.restart)
    told = seen.stopping is not None
    if driver is None:
        # Its process begins by saying that it is there, so one that has not was never started, or has died.
        limit = limits.coming if fits and seen.waits is not None else limits.register
        if now - job.asked < limit:
            return Step(What.NOTHING, seen.waits or "waiting for its process", until=job.asked + limit)
        why = "its process has never said that it is there"
        return Step(What.CLOSE, why if seen.waits is None else f"{why}: {seen.waits}", failed=fits)
    if not driver.state.active:
        # One that was asked to end, though it should run, has not failed: its machine is shut down.
        failed = driver.error is not None or (fits and not driver.told)
        return Step(What.CLOSE, driver.error or "it has ended", failed=failed)
    if not seen.alive:
        return Step(What.CLOSE, "its process is gone", failed=fits and not told)
    if now - driver.beat > limits.dead:
        return Step(What.KILL, f"its driver has said nothing for {now - driver.beat:.0f} s")
    if fits:
        return Step(What.NOTHING)
    if seen.stopping is None:
        return Step(
            What.STOP, "it should be stopped" if wanted.version is None else "something else should run"
        )
    if now - seen.stopping > limits.stop:
        return Step(What.KILL, f"it has not stopped within {limits.stop:.0f} s")
    return Step(What.NOTHING, "stopping", until=seen.stopping + limits.stop)
