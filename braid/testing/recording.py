"""An estimator that writes down what it said, so that a run can be measured chunk by chunk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from braid.core.json_values import Json
from braid.core.positions import START, Position
from braid.core.times import MIN_TIME
from braid.eventtime.chunk import ChunkTimes
from braid.eventtime.estimator import Estimator, StreamClock
from braid.testing.accuracy import Accuracy
from braid.testing.streams import Cut, Stream


class Recorder:
    """Passes everything on to `estimator`, and keeps its estimates before and after each new chunk.

    The clock that gave the latest snapshot stays in memory, and goes on when it is restored from it: by
    contract it would go the same way, and a simulation restores it for every micro-batch.
    """

    def __init__(self, estimator: Estimator) -> None:
        self._estimator = estimator
        self._latest: RecordedClock | None = None
        self.notes: list[tuple[int, int]] = []

    @property
    def kind(self) -> str:
        """That of `estimator`."""
        return self._estimator.kind

    def start(self, after: Position = START) -> RecordedClock:
        """A clock that knows of no chunk."""
        self._latest = RecordedClock(self._estimator.start(after), self.notes)
        return self._latest

    def restore(self, snapshot: Mapping[str, Json]) -> RecordedClock:
        """The clock that wrote `snapshot`."""
        if self._latest is None or self._latest.given is not snapshot:
            self._latest = RecordedClock(self._estimator.restore(snapshot), self.notes)
        return self._latest

    def accuracy(self, stream: Stream, cuts: Sequence[Cut]) -> Accuracy:
        """What the notes say about a stream whose chunks, in order, were `cuts`; all must be admitted."""
        before, after = np.array(self.notes, np.int64).reshape(-1, 2).T
        table = np.array([(c.wall_time, c.start, c.stop) for c in cuts], np.int64).reshape(-1, 3)
        wall_time, start, stop = table.T
        late = np.zeros(len(cuts), np.int64)
        if len(cuts):
            late = np.add.reduceat(stream.event_time < np.repeat(before, stop - start), start, dtype=np.int64)
        known = before > MIN_TIME
        return Accuracy(wall_time[known], (stop - start)[known], late[known], (wall_time - after)[known])


class RecordedClock:
    """A clock whose estimates are kept."""

    def __init__(self, clock: StreamClock, notes: list[tuple[int, int]]) -> None:
        self._clock = clock
        self._notes = notes
        self.given: dict[str, Json] | None = None

    @property
    def stream_time(self) -> int:
        """The estimate."""
        return self._clock.stream_time

    @property
    def frontier(self) -> int:
        """How far the stream has come."""
        return self._clock.frontier

    @property
    def since(self) -> Position | None:
        """The position after which chunks must be recalled."""
        return self._clock.since

    def observe(self, chunk: ChunkTimes) -> None:
        """Take in a chunk, and note the estimates around it."""
        before = self._clock.stream_time
        self._clock.observe(chunk)
        self._notes.append((before, self._clock.stream_time))

    def recall(self, chunk: ChunkTimes) -> None:
        """Take in again a chunk admitted earlier, unless this clock remembers it."""
        if self.given is None:
            self._clock.recall(chunk)

    def snapshot(self) -> dict[str, Json]:
        """The clock's own snapshot."""
        self.given = self._clock.snapshot()
        return self.given
