"""One input of an operator while a decision is being made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from braid.core.errors import StateError
from braid.core.positions import Position
from braid.eventtime.chunk import ChunkTimes
from braid.eventtime.estimator import Estimator
from braid.eventtime.offset import InputOffset
from braid.eventtime.pacing.decision import Admission, InputStatus


@dataclass(frozen=True)
class Listening:
    """When an input that has nothing to read counts as silent; see `next_offset`."""

    draining: bool
    quiet: int
    watching_since: int


class PacedInput:
    """One input while a decision is being made."""

    def __init__(
        self,
        name: str,
        offset: InputOffset,
        estimator: Estimator,
        records: Iterable[ChunkTimes],
        patient: bool,
    ) -> None:
        self.name = name
        self._patient = patient
        self.time = offset.stream_time
        self._before = offset
        self._position = offset.position
        self._active = offset.active
        # With another kind of estimator than before, stream time stays until the new one has passed it.
        snapshot = offset.estimator or {}
        same = snapshot.get("kind") == estimator.kind
        self._clock = estimator.restore(snapshot) if same else estimator.start(offset.position)
        self._chunks = 0
        self._rows = 0
        self._records = self._ordered(iter(records))
        self._next = next(self._records, None)
        while self._next is not None and self._next.position <= offset.position:
            if self._next.position > offset.needed:
                self._clock.recall(self._next)
            self._next = next(self._records, None)

    def _ordered(self, records: Iterator[ChunkTimes]) -> Iterator[ChunkTimes]:
        last: Position | None = None
        for chunk in records:
            if last is not None and chunk.position <= last:
                raise StateError(
                    f"chunk {tuple(chunk.position)} of the {self.name} input comes after {tuple(last)}",
                    where="pacing",
                    hint="give chunk records in the order of commits and chunks, each once",
                )
            last = chunk.position
            yield chunk

    @property
    def frontier(self) -> int:
        """How far it has come: beyond its stream time by as much as its rows may be late."""
        return max(self.time, self._clock.frontier)

    def peek(self) -> ChunkTimes | None:
        """The next chunk that could be admitted."""
        return self._next

    def admit(self, now: int) -> None:
        """Take the next chunk."""
        chunk = self._next
        assert chunk is not None
        self._clock.observe(chunk)
        self.time = max(self.time, self._clock.stream_time)
        self._position = chunk.position
        self._chunks += 1
        self._rows += chunk.rows
        # A chunk without a single event time says nothing about time: it must not hold back the other
        # input for as long as such chunks keep coming. One with a watermark does.
        if chunk.timed or chunk.watermark is not None:
            self._active = now
        self._next = next(self._records, None)

    @property
    def active(self) -> int:
        """The wall clock when rows with event times were last admitted."""
        return self._active

    def silent(self, silence: Listening) -> bool:
        """Whether there is nothing to read, and has been nothing for so long that it may never come."""
        if self._next is not None:
            return False
        since = max(self._active, silence.watching_since)
        return silence.draining or (not self._patient and since <= silence.quiet)

    def offset(self) -> InputOffset:
        """Where this input stands now; the same object as before when nothing was admitted or moved."""
        if not self._chunks:
            before = self._before
            if self.time == before.stream_time:
                return before
            return InputOffset(before.position, self.time, before.active, before.estimator)
        return InputOffset(self._position, self.time, self._active, self._clock.snapshot())

    def admission(self, status: InputStatus) -> Admission:
        """What has been admitted."""
        return Admission(self._before.position, self._position, self._chunks, self._rows, self.time, status)
