"""The paper's stream time: a statistic over the smallest window whose values ascend (section 5.3)."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from braid.core.errors import ConfigError
from braid.core.json_values import Json, read_int, read_position
from braid.core.positions import START, Position
from braid.core.times import MIN_TIME
from braid.eventtime.chunk import ChunkTimes
from braid.eventtime.sketch import Distribution
from braid.eventtime.validity import HORIZON, plausible_floor


class Statistic(Protocol):
    """The value of a window."""

    def __call__(self, times: Distribution, floor: int) -> float:
        """The statistic of `times`; those below `floor` are not to be believed."""


@dataclass(frozen=True)
class Percentile:
    """At most `percent` percent of the event times that can be believed are below the value."""

    percent: float

    def __call__(self, times: Distribution, floor: int) -> float:
        """The percentile of the event times at `floor` or later."""
        below = times.rank(floor)
        return times.quantile(below + (1 - below) * self.percent / 100)


@dataclass(frozen=True)
class Mean:
    """The mean, as in the paper's Figure 7."""

    def __call__(self, times: Distribution, floor: int) -> float:
        """The mean of all event times."""
        return times.mean()


@dataclass(frozen=True)
class Ascending:
    """Configuration of the paper's estimator.

    Parameters
    ----------
    percentile
        Percent of rows that may arrive behind stream time, if the estimate is right.
    windows
        How many successive windows must ascend.
    max_window
        Most chunks in a window; a power of two.
    statistic
        What is taken of a window; the percentile unless given.
    horizon
        Event times that are this far behind the median of their window are not believed.
    """

    kind: ClassVar[str] = "ascending"
    percentile: float = 1.0
    windows: int = 4
    max_window: int = 64
    statistic: Statistic | None = None
    horizon: int = HORIZON

    def __post_init__(self) -> None:
        if not 0 < self.percentile < 50:
            raise ConfigError(f"percentile is {self.percentile}, but must be between 0 and 50 percent")
        if self.windows < 2:
            raise ConfigError(f"windows is {self.windows}, but one window alone cannot ascend")
        if self.max_window < 1 or self.max_window & (self.max_window - 1):
            raise ConfigError(f"max_window is {self.max_window}, but must be a power of two")

    def start(self, after: Position = START) -> AscendingClock:
        """A clock that has seen nothing."""
        return AscendingClock(self, MIN_TIME, 0, after)

    def restore(self, snapshot: Mapping[str, Json]) -> AscendingClock:
        """The clock that wrote `snapshot`, once the chunks after its `since` have been recalled."""
        return AscendingClock(
            self,
            read_int(snapshot, "time"),
            read_int(snapshot, "seen"),
            read_position(snapshot, "since"),
        )


@dataclass
class _Level:
    """Windows of one size: the values of the latest complete ones, and the last if it waits for its pair."""

    values: deque[float]
    open: Distribution | None = field(default=None)


class AscendingClock:
    """Windows of 1, 2, 4, ... chunks, aligned to the number of chunks seen.

    Two adjacent windows make one of the next size, so a chunk costs two merges on average whatever the
    window. A snapshot holds no sketches: windows are rebuilt from the chunk records after `since`, which
    the log still has, since no more than `(windows + 1) * max_window` chunks are ever needed.
    """

    def __init__(self, config: Ascending, time: int, seen: int, since: Position) -> None:
        self._config = config
        self._statistic = config.statistic or Percentile(config.percentile)
        self._time = time
        self._seen = seen
        self._since = since
        self._kept: deque[Position] = deque()
        self._recalled: list[ChunkTimes] = []
        self._levels = [_Level(deque(maxlen=config.windows)) for _ in range(config.max_window.bit_length())]
        self.window = 0

    @property
    def stream_time(self) -> int:
        """The value of the latest window of the smallest size that ascended; never less than before."""
        return self._time

    @property
    def frontier(self) -> int:
        """The same: the paper paces by stream times."""
        return self._time

    @property
    def since(self) -> Position | None:
        """The chunk before the oldest one that still counts."""
        return self._since

    def recall(self, chunk: ChunkTimes) -> None:
        """Keep a chunk for rebuilding the windows."""
        if chunk.timed:
            self._recalled.append(chunk)

    def observe(self, chunk: ChunkTimes) -> None:
        """Add a chunk, and take the value of the smallest window that ascends."""
        self._rebuild()
        if not chunk.timed:
            return
        self._add(chunk)
        for exponent, level in enumerate(self._levels):
            if len(level.values) == self._config.windows and _ascends(level.values):
                self._time = max(self._time, int(level.values[-1]))
                self.window = 1 << exponent
                return

    def values(self, window: int) -> list[float]:
        """The statistic of the latest windows of `window` chunks, oldest first."""
        self._rebuild()
        return list(self._levels[window.bit_length() - 1].values)

    def snapshot(self) -> dict[str, Json]:
        """Stream time, chunks seen, and where the windows begin."""
        self._rebuild()
        return {"kind": Ascending.kind, "time": self._time, "seen": self._seen, "since": list(self._since)}

    def _rebuild(self) -> None:
        # Counted back from the last chunk, so that chunks that retention has taken are merely missing.
        recalled, self._recalled = self._recalled, []
        if recalled:
            self._seen -= len(recalled)
            for chunk in recalled:
                self._add(chunk)

    def _add(self, chunk: ChunkTimes) -> None:
        self._merge_up(Distribution.from_bytes(chunk.sketch))
        self._seen += 1
        self._kept.append(chunk.position)
        size = self._config.max_window
        first = max(0, self._seen // size - self._config.windows) * size
        while len(self._kept) > self._seen - first:
            self._since = self._kept.popleft()

    def _merge_up(self, times: Distribution) -> None:
        for exponent, level in enumerate(self._levels):
            floor = plausible_floor(times, self._config.horizon)
            level.values.append(self._statistic(times, floor))
            first_of_pair = (self._seen >> exponent) & 1 == 0
            if first_of_pair:
                level.open = times
                return
            if level.open is None:
                return  # the other half of the pair is older than what was restored
            times, level.open = level.open.merge(times), None


def _ascends(values: deque[float]) -> bool:
    return all(a < b for a, b in itertools.pairwise(values))
