"""What was decided: the next offset, what was admitted, and why an input is not read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from braid.core.positions import Position
from braid.core.times import iso_time
from braid.eventtime.offset import Offset


class InputStatus(StrEnum):
    """What an input is doing after a decision."""

    RUNNING = "running"
    PAUSED = "paused"
    WAITING = "waiting"
    IDLE = "idle"
    ENDED = "ended"


@dataclass(frozen=True)
class Admission:
    """What was admitted of one input: the chunks after `after`, up to and including `upto`."""

    after: Position
    upto: Position
    chunks: int
    rows: int
    stream_time: int
    status: InputStatus


@dataclass(frozen=True)
class Pause:
    """Why an input that has chunks is not read.

    Parameters
    ----------
    input, behind
        The input that is paused, and the one that it is ahead of.
    ahead
        How many microseconds it is beyond where the other one would have it; None while the other has no
        stream time at all.
    other
        What the other input is doing.
    """

    input: str
    behind: str
    ahead: int | None
    other: InputStatus

    def describe(self) -> str:
        """One line for people."""
        other = self.behind
        far = "" if self.ahead is None else f" by {self.ahead / 1_000_000:.1f} s"
        why = {
            InputStatus.WAITING: f"{other} has nothing to read",
            InputStatus.IDLE: f"{other} is silent, and idle = 'wait'",
        }.get(self.other, f"{other} catches up")
        return f"{self.input} is paused: ahead of {other}{far}; {why}"


@dataclass(frozen=True)
class Silence:
    """An input that has had nothing to read for longer than `idle_timeout`, while another one goes on.

    Parameters
    ----------
    input
        Its name.
    since
        The wall clock when rows with event times were last admitted; or when it was first looked at.
    waited_for
        Whether rows of the other input wait for it however long that takes.
    """

    input: str
    since: int
    waited_for: bool

    def describe(self) -> str:
        """One line for people."""
        what = (
            "all rows wait for it" if self.waited_for else "rows wait until the other input has passed them"
        )
        return f"{self.input} has been silent since {iso_time(self.since)}: {what}"


@dataclass(frozen=True)
class Decision:
    """The next offset and what lies between it and the one before.

    Parameters
    ----------
    offset
        The next offset; the same object as before when there is nothing to do.
    inputs
        What was admitted of each input, with the stream times after it.
    pause
        Why an input with chunks was left unread, if one was.
    limited
        Whether the row budget ended the micro-batch; there is more to admit at once.
    silence
        Which input is silent while the other one goes on, if one is.
    """

    offset: Offset
    inputs: Mapping[str, Admission]
    pause: Pause | None
    limited: bool
    silence: Silence | None = None

    @property
    def rows(self) -> int:
        """Rows admitted of all inputs."""
        return sum(admission.rows for admission in self.inputs.values())
