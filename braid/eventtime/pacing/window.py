"""Pacing of two inputs whose rows meet in a window: who waits for whom, and what a silent one does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from braid.core.times import MIN_TIME, is_known, shift_time
from braid.eventtime.offset import Offset
from braid.eventtime.pacing.config import PacingConfig
from braid.eventtime.pacing.decision import InputStatus, Pause, Silence
from braid.eventtime.pacing.paced_input import Listening, PacedInput

_CATCHING_UP = 2
"""How much faster than the other input's a silent input's stream time goes until it is level with it."""


class Window:
    """Two inputs whose rows meet in a window: the first, and the second up to `upper` after it."""

    def __init__(
        self, inputs: Sequence[PacedInput], config: PacingConfig, offset: Offset, silence: Listening
    ) -> None:
        assert config.upper is not None
        self._first, self._second = inputs
        self._upper = config.upper
        self._slack = config.slack
        self._waits = config.waits
        self._drained = offset.drained
        self._silence = silence
        self._seen = {one.name: one.time for one in inputs}

    def choose(self) -> PacedInput | None:
        """The input to read next: the one behind, or else the other unless it is paused."""
        pair = (self._first, self._second)
        behind, ahead = pair if self._lead() > 0 else reversed(pair)
        if behind.peek() is not None:
            return behind
        return ahead if ahead.peek() is not None and not self.paused(ahead) else None

    def follow(self) -> None:
        """Move the stream time of an input that is silent along with the other's, unless that is silent too.

        Of one that has ended, nothing comes any more: rows that wait for it are decided at once. One that is
        only silent may come back with everything, so rows wait until the other input has itself passed their
        window, at least: see `_level`. And it gets there by degrees, so that a silence which is hardly longer
        than the timeout costs hardly a match.
        """
        one = self._alone()
        if one is not None:
            other = self._other(one)
            if self._silence.draining:
                apart = -self._upper if one is self._first else self._upper
                one.time = max(one.time, shift_time(other.time, apart))
            elif not self._waits:
                target, before = self._level(one), self._seen[other.name]
                if is_known(one.time):
                    moved = other.time - before if is_known(before) else 0
                    target = min(target, shift_time(one.time, _CATCHING_UP * moved))
                one.time = max(one.time, target)
        self._seen = {one.name: one.time for one in (self._first, self._second)}

    def paused(self, one: PacedInput) -> bool:
        """Whether an input is too far ahead. Never both, so one of two that have chunks can always go on."""
        held = self._waits and not self._silence.draining
        return (held or not self._other(one).silent(self._silence)) and self._ahead(one) > self._slack

    def silence(self) -> Silence | None:
        """The input that is silent while the other one goes on; not in a drain, where that is its end."""
        one = None if self._silence.draining else self._alone()
        return None if one is None else Silence(one.name, one.active, self._waits)

    def _alone(self) -> PacedInput | None:
        """The input that is silent, if one is and the other is not."""
        first, second = self._first, self._second
        quiet = first.silent(self._silence), second.silent(self._silence)
        return {(True, False): first, (False, True): second}.get(quiet)

    def _other(self, one: PacedInput) -> PacedInput:
        return self._second if one is self._first else self._first

    def _level(self, one: PacedInput) -> int:
        """The latest stream time of a silent input at which the other one's rows wait for what they must.

        The second input's lets rows of the first go that are `upper` before it: they must wait until the
        first has passed both them and their window. Likewise the other way round, where without knowing the
        window's lower bound its whole width will do.
        """
        if one is self._second:
            return shift_time(self._first.time, min(self._upper, 0))
        return shift_time(self._second.time, -max(self._upper, 0))

    def pause(self, statuses: Mapping[str, InputStatus]) -> Pause | None:
        """Why an input that has chunks was not read."""
        for one, other in ((self._first, self._second), (self._second, self._first)):
            if statuses[one.name] is InputStatus.PAUSED:
                known = MIN_TIME not in (one.time, other.time)
                ahead = self._ahead(one) if known else None
                return Pause(one.name, other.name, ahead, statuses[other.name])
        return None

    def _lead(self) -> int:
        """How far the second stream time is ahead of where the first would have it; negative if behind."""
        if self._drained or self._first.time == self._second.time == MIN_TIME:
            return 0
        return self._second.time - self._first.time - self._upper

    def _ahead(self, one: PacedInput) -> int:
        """How far an input is beyond where the other one would have it."""
        if one is self._second or self._drained or self._first.time == self._second.time == MIN_TIME:
            return self._lead()
        return self._first.time - self._second.frontier + min(self._upper, 0)
