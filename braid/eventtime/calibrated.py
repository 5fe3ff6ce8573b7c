"""Stream time that holds the share of late rows: a frontier, less a delay that is tracked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from braid.errors import ConfigError
from braid.eventtime.chunk import MIN_TIME, ChunkTimes, Position
from braid.eventtime.estimator import Json, bad_snapshot, read_float, read_floats, read_int
from braid.eventtime.sketch import Distribution
from braid.eventtime.validity import HORIZON, plausible_floor

_PER_OCTAVE = 3
_EDGES = np.round(1_000 * 2.0 ** (np.arange(34 * _PER_OCTAVE) / _PER_OCTAVE)).astype(np.float64)
"""Latenesses, 1 ms to months, at which the share of later rows is tracked."""
_CAP = 16.0
"""Shares above this multiple of the target are not told apart: only the tail decides the delay."""


@dataclass(frozen=True)
class Calibrated:
    """Configuration of the calibrated estimator.

    Parameters
    ----------
    percentile
        Percent of rows that shall arrive behind stream time.
    late_memory
        Late rows, at the target share, after which an observation has faded.
    horizon
        Event times that are this far behind the median of their chunk are not believed.
    """

    percentile: float = 1.0
    late_memory: float = 100.0
    horizon: int = HORIZON

    def __post_init__(self) -> None:
        if not 0 < self.percentile < 50:
            raise ConfigError(f"percentile is {self.percentile}, but must be between 0 and 50 percent")

    @property
    def share(self) -> float:
        """The target share of late rows, between 0 and 1."""
        return self.percentile / 100

    def start(self) -> CalibratedClock:
        """A clock that has seen nothing."""
        return CalibratedClock(self)

    def restore(self, snapshot: Mapping[str, Json]) -> CalibratedClock:
        """The clock that wrote `snapshot`."""
        return CalibratedClock(self, snapshot)


class CalibratedClock:
    """The frontier, the tail of the distribution of lateness behind it, and the balance of late rows."""

    def __init__(self, config: Calibrated, snapshot: Mapping[str, Json] | None = None) -> None:
        self._config = config
        self._time = MIN_TIME
        self._frontier = MIN_TIME
        self._late = np.zeros(len(_EDGES), dtype=np.float32)
        self._weight = np.float32(0)
        self._excess = np.float32(0)
        if snapshot is not None:
            self._time = read_int(snapshot, "time")
            self._frontier = read_int(snapshot, "frontier")
            self._weight = np.float32(read_float(snapshot, "weight"))
            self._excess = np.float32(read_float(snapshot, "excess"))
            first, late = read_int(snapshot, "first"), read_floats(snapshot, "late")
            if first < 0 or first + len(late) > len(_EDGES):
                raise bad_snapshot("first", first, f"an index below {len(_EDGES)}")
            self._late[:first] = self._cap
            self._late[first : first + len(late)] = late

    @property
    def _cap(self) -> float:
        return min(1.0, _CAP * self._config.share)

    @property
    def stream_time(self) -> int:
        """The frontier less the delay."""
        return self._time

    @property
    def since(self) -> Position | None:
        """Nothing is ever recalled."""
        return None

    def recall(self, chunk: ChunkTimes) -> None:
        """Do nothing."""

    def observe(self, chunk: ChunkTimes) -> None:
        """Measure the chunk against stream time and the frontier as they were, then move both."""
        if not chunk.timed:
            return
        times = Distribution.from_bytes(chunk.sketch)
        floor = plausible_floor(times, self._config.horizon)
        implausible = times.rank(floor)
        top = times.bounds()[1]
        first = self._frontier == MIN_TIME
        before = top if first else self._frontier
        rows = times.count * (1 - implausible)
        ranks = times.ranks((before - _EDGES)[::-1])[::-1]
        late = np.clip((ranks - implausible) / (1 - implausible), 0.0, self._cap)
        p = self._config.share
        behind = max(0.0, times.rank(self._time) - implausible) / (1 - implausible) if not first else p
        memory = self._config.late_memory / p
        keep = math.exp(-rows / memory)
        weight = float(self._weight) * max(keep, 0.7)
        step = rows / (rows + weight)
        self._late = (self._late + step * (late - self._late)).astype(np.float32)
        self._weight = np.float32(rows + weight)
        limit = 2 * p * memory
        self._excess = np.float32(np.clip(float(self._excess) + rows * (behind - p), -limit, limit))
        self._frontier = max(self._frontier, top)
        self._time = max(self._time, self._frontier - self.delay)

    @property
    def delay(self) -> int:
        """How far stream time is kept behind the frontier."""
        p = self._config.share
        memory = self._config.late_memory
        level = p * float(np.clip(math.exp(-float(self._excess) / memory), 0.1, 4.0))
        return _invert(self._late, level)

    def snapshot(self) -> dict[str, Json]:
        """The frontier, the tail of the lateness, and the late rows beyond or below the target."""
        cap = np.float32(self._cap)
        first = int(np.count_nonzero(self._late >= cap))
        last = int(np.count_nonzero(self._late > 0))
        return {
            "time": self._time,
            "frontier": self._frontier,
            "weight": _short(self._weight),
            "excess": _short(self._excess),
            "first": first,
            "late": [_short(value) for value in self._late[first:last]],
        }


def _invert(late: npt.NDArray[np.float32], level: float) -> int:
    index = int(np.count_nonzero(late > level))
    if index == 0:
        return 0
    if index == len(late):
        return int(_EDGES[-1])
    high, low = float(late[index - 1]), max(float(late[index]), 1e-9)
    part = (math.log(high) - math.log(max(level, low))) / max(math.log(high) - math.log(low), 1e-9)
    return int(_EDGES[index - 1] * (_EDGES[index] / _EDGES[index - 1]) ** part)


def _short(value: np.float32) -> float:
    """The shortest decimal that reads back as the same 32-bit number."""
    return float(str(value))
