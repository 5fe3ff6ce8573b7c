"""When to start again what has ended although it should run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from braid.home.service import Domain


@dataclass(frozen=True)
class Limits:
    """Time limits of supervision, in seconds.

    Parameters
    ----------
    dead
        A driver that has said nothing for so long is taken for dead.
    register
        How long a process may take until it says that it is there.
    coming
        The same, where something is known to keep it from that, such as an image that is fetched.
    stop
        How long a driver may take to stop in good order.
    first_pause, longest_pause
        Between two starts; doubled with every failure in a row.
    healthy
        After so long, a failure counts as the first one again.
    loop_failures, loop_window
        So many failures within such a time are a crash loop.
    """

    dead: float = 30.0
    register: float = 20.0
    coming: float = 600.0
    stop: float = 60.0
    first_pause: float = 2.0
    longest_pause: float = 300.0
    healthy: float = 600.0
    loop_failures: int = 5
    loop_window: float = 1800.0


LIMITS = Limits()


@dataclass(frozen=True)
class Run:
    """A start of an application, as the registry knows it.

    Parameters
    ----------
    at, ended
        From when to when; None if it has not ended.
    failed
        Whether it ended without having been told to.
    domain
        Whose fault that was.
    """

    at: float
    ended: float | None = None
    failed: bool = False
    domain: Domain | None = None


def failures_in_a_row(runs: Sequence[Run], limits: Limits = LIMITS) -> int:
    """How many of the last runs have failed before they had been healthy for long enough."""
    count = 0
    for run in reversed(runs):
        if not run.failed or run.ended is None:
            break
        count += 1
        if run.ended - run.at >= limits.healthy:
            break
    return count


def next_start(runs: Sequence[Run], jitter: float, limits: Limits = LIMITS) -> float | None:
    """When an application is to be started again; None if it has failed by its program's fault.

    Parameters
    ----------
    runs
        Those of what is to run, oldest first.
    jitter
        Between 0 and 1: applications that have failed together do not all start together.
    """
    count = failures_in_a_row(runs, limits)
    if count == 0:
        return 0.0
    last = runs[-1]
    assert last.ended is not None
    if last.domain is Domain.USER:
        return None
    if last.domain is None and count == 1:
        return last.ended  # killed out of the blue: at once
    pause = min(limits.longest_pause, limits.first_pause * 2.0 ** min(count - 1, 32))
    return last.ended + pause * (0.75 + 0.5 * jitter)


def is_crash_loop(runs: Sequence[Run], now: float, limits: Limits = LIMITS) -> bool:
    """Whether it has failed so often of late that somebody should look at it."""
    return recent_failures(runs, now, limits) >= limits.loop_failures


def recent_failures(runs: Sequence[Run], now: float, limits: Limits = LIMITS) -> int:
    """Failures of late."""
    return sum(
        1 for run in runs if run.failed and run.ended is not None and now - run.ended < limits.loop_window
    )
