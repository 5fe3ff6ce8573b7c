"""What the registry may forget: events, changes, starts and tokens that nobody goes by any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

DAY = 86_400.0


@dataclass(frozen=True)
class Kept:
    """How long what has happened is kept.

    Parameters
    ----------
    events, audit
        In days; starts are kept for as long as events.
    tokens
        Days for which tokens are listed that have expired.
    starts
        The last ones of each application stay, however old they are: backoff goes by them.
    """

    events: float = 30.0
    audit: float = 730.0
    tokens: float = 30.0
    starts: int = 50


@dataclass(frozen=True)
class Before:
    """What is older than these moments may go; in seconds since the epoch."""

    events: float
    audit: float
    tokens: float


@dataclass(frozen=True)
class Started:
    """A start of an application.

    Parameters
    ----------
    job
        Its number.
    at, ended
        From when to when; None if it has not ended.
    """

    job: str
    at: float
    ended: float | None


def before(kept: Kept, now: float) -> Before:
    """The moments at some time."""
    return Before(now - kept.events * DAY, now - kept.audit * DAY, now - kept.tokens * DAY)


def superfluous(starts: Sequence[Started], kept: Kept, now: float) -> list[str]:
    """Numbers of an application's starts that may go: they have ended long ago, and many have followed."""
    moment = before(kept, now).events
    newest_first = sorted(starts, key=lambda start: start.at, reverse=True)
    return [
        start.job for start in newest_first[kept.starts :] if start.ended is not None and start.ended < moment
    ]
