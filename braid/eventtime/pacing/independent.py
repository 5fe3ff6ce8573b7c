"""Pacing of inputs that do not wait for each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from braid.eventtime.pacing.decision import InputStatus, Pause, Silence
from braid.eventtime.pacing.paced_input import PacedInput


class Independent:
    """Inputs that do not wait for each other: the one that is furthest behind is read next."""

    def __init__(self, inputs: Sequence[PacedInput]) -> None:
        self._inputs = inputs

    def choose(self) -> PacedInput | None:
        """The input to read next."""
        return min((one for one in self._inputs if one.peek() is not None), key=_by_time, default=None)

    def follow(self) -> None:
        """No stream time depends on another one."""

    def paused(self, one: PacedInput) -> bool:
        """None is."""
        return False

    def pause(self, statuses: Mapping[str, InputStatus]) -> Pause | None:
        """Nothing to explain."""
        return None

    def silence(self) -> Silence | None:
        """Nobody waits for it."""
        return None


def _by_time(one: PacedInput) -> int:
    return one.time
