"""Stream time that holds the share of late rows: a frontier, less a delay that follows the stream.

A row is late when its event time is behind the stream time that it meets. Percentiles of what has been seen
do not say how many rows will be: what decides is how far the *next* chunk reaches back behind the furthest
point the stream has come to, the frontier. So that is what is tracked here: for each new chunk, the share of
its rows that lie further behind the frontier than each of a ladder of latenesses. The delay is the lateness
that just the target share exceeds, and what the estimate has let through in excess of the target, or short
of it, is worked off by aiming lower or higher, so the share holds over time whatever the distribution does.
Nothing depends on the wall clock, and so a backlog that is replayed gives what it gave live.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from braid.core.errors import ConfigError
from braid.core.json_values import Json, bad_snapshot, read_float, read_floats, read_int
from braid.core.positions import START, Position
from braid.core.times import MIN_TIME
from braid.eventtime.chunk import ChunkTimes
from braid.eventtime.frontier import Frontier
from braid.eventtime.sketch import Distribution
from braid.eventtime.validity import HORIZON, plausible_floor

_LADDER = np.round(20_000 * 2.0 ** (np.arange(56) / 2))
"""Latenesses in microseconds, 20 ms to two months, at which the share of later rows is tracked."""
_CAP = 8.0
"""Multiple of the target above which shares are not told apart: only the tail decides the delay."""
_NEGLIGIBLE = 1e-4
"""Multiple of the target below which a share counts as none."""
_MOST_NEW = 0.3
"""Most that one chunk counts against the past, however large: alone it is a poor witness."""
_MOST_OWED, _MOST_SAVED = 2.0, 0.5
"""Most that the balance may hold, in multiples of the late rows that are remembered. What a disaster lets
through beyond it is not worked off, since days of long delays afterwards would help no one; and a quiet
time, or a careful start, is no reason to let late rows through in numbers later."""


@dataclass(frozen=True)
class Calibrated:
    """Configuration of the calibrated estimator.

    Parameters
    ----------
    percentile
        Percent of rows that shall arrive behind stream time.
    late_memory
        How many late rows it takes, at the target share, for an observation to fade. Less follows a
        changing stream faster; more gives a steadier delay.
    horizon
        Event times that are this far behind the frontier, or the median of their chunk, are not believed.
    """

    kind: ClassVar[str] = "calibrated"
    percentile: float = 1.0
    late_memory: float = 100.0
    horizon: int = HORIZON

    def __post_init__(self) -> None:
        if not 0 < self.percentile < 50:
            raise ConfigError(f"percentile is {self.percentile}, but must be between 0 and 50 percent")
        if self.late_memory < 1:
            raise ConfigError(f"late_memory is {self.late_memory}, but must be at least 1")

    @property
    def share(self) -> float:
        """The target share of late rows, between 0 and 1."""
        return self.percentile / 100

    def start(self, after: Position = START) -> CalibratedClock:
        """A clock that has seen nothing."""
        return CalibratedClock(self)

    def restore(self, snapshot: Mapping[str, Json]) -> CalibratedClock:
        """The clock that wrote `snapshot`."""
        clock = CalibratedClock(self)
        clock.load(snapshot)
        return clock


class CalibratedClock:
    """The frontier, the tail of the distribution of lateness behind it, and the balance of late rows.

    State is kept in 32-bit floats, whose shortest decimals are exact in JSON: a clock that is restored
    after every chunk goes the same way, bit for bit, as one that never is.
    """

    def __init__(self, config: Calibrated) -> None:
        self._config = config
        self._time = MIN_TIME
        self._frontier = Frontier()
        self._late = np.zeros(len(_LADDER), dtype=np.float32)
        self._weight = np.float32(0)
        self._balance = np.float32(0)

    @property
    def stream_time(self) -> int:
        """The frontier less the delay; it never goes back."""
        return self._time

    @property
    def frontier(self) -> int:
        """The greatest event time that can be believed."""
        return max(self._time, self._frontier.time)

    @property
    def since(self) -> Position | None:
        """Nothing is ever recalled: the snapshot is all there is."""
        return None

    @property
    def delay(self) -> int:
        """How far stream time is kept behind the frontier, in microseconds."""
        share = self._config.share
        aim = share * math.exp(-float(self._balance) / (share * self._memory))
        return _lateness(self._late, aim)

    def recall(self, chunk: ChunkTimes) -> None:
        """Do nothing."""

    def observe(self, chunk: ChunkTimes) -> None:
        """Measure the chunk against stream time and frontier as it met them; then move both."""
        if not chunk.timed:
            return
        times = Distribution.from_bytes(chunk.sketch)
        before = self._frontier.time
        known = before > MIN_TIME
        ignored = times.rank(plausible_floor(times, self._config.horizon, before))
        if ignored == 1:
            return
        advance = self._frontier.advance(times)
        if self._frontier.time == MIN_TIME:
            return
        if not known:
            # Nothing went before: its own rows must do for a first idea of lateness. Their spread in
            # arrival makes it too large rather than too small.
            before = self._frontier.time
        rows = times.count * (1 - ignored)
        ranks = times.ranks((before - _LADDER)[::-1])[::-1]
        late = np.clip((ranks - ignored) / (1 - ignored), 0.0, None)
        self._remember(late, rows, advance)
        if known:
            behind = max(times.rank(self._time) - ignored, 0.0) / (1 - ignored)
            self._settle(rows, behind - self._config.share)
        self._time = max(self._time, self._frontier.time - self.delay)

    def snapshot(self) -> dict[str, Json]:
        """Stream time, frontier, the ladder between certain and negligible, and the balance."""
        first = int(np.count_nonzero(self._late >= self._cap))
        last = int(np.count_nonzero(self._late))
        return {
            "kind": Calibrated.kind,
            "time": self._time,
            "frontier": self._frontier.snapshot(),
            "weight": _short(self._weight),
            "balance": _short(self._balance),
            "first": first,
            "late": [_short(value) for value in self._late[first:last]],
        }

    def load(self, snapshot: Mapping[str, Json]) -> None:
        """Become the clock that wrote `snapshot`."""
        self._time = read_int(snapshot, "time")
        self._frontier = Frontier.restore(snapshot.get("frontier"))
        self._weight = np.float32(read_float(snapshot, "weight"))
        self._balance = np.float32(read_float(snapshot, "balance"))
        first, late = read_int(snapshot, "first"), read_floats(snapshot, "late")
        if not 0 <= first <= len(_LADDER) - len(late):
            raise bad_snapshot("first", first, f"0 to {len(_LADDER) - len(late)}")
        self._late[:] = 0
        self._late[:first] = self._cap
        self._late[first : first + len(late)] = late

    @property
    def _cap(self) -> np.float32:
        return np.float32(min(1.0, _CAP * self._config.share))

    @property
    def _memory(self) -> float:
        """Rows that are remembered: enough to hold `late_memory` late ones, or all of the last while."""
        return max(self._config.late_memory / self._config.share, float(self._weight))

    def _remember(self, late: npt.NDArray[np.float64], rows: float, advance: int) -> None:
        # Forget by rows, but not before the stream has advanced by as much as it is usually late: on a
        # fast stream even many rows are a short moment, and moments differ.
        least = self._config.late_memory / self._config.share
        by_rows = math.exp(-rows / least)
        by_time = math.exp(-2 * advance / max(self.delay, 1))
        weight = rows + float(self._weight) * max(by_rows, by_time)
        mixed = self._late + min(rows / weight, _MOST_NEW if self._weight else 1.0) * (late - self._late)
        mixed[mixed < _NEGLIGIBLE * self._config.share] = 0
        self._late = np.minimum(mixed.astype(np.float32), self._cap)
        self._weight = np.float32(weight if by_time > by_rows else min(weight, least))

    def _settle(self, rows: float, excess: float) -> None:
        balance = float(self._balance)
        if excess < 0 and balance <= 0 and self.delay == 0:
            # With no delay left to give up, what is short of the target is not saved up but forgotten: it
            # would be spent on late rows as soon as the stream gets worse.
            balance *= math.exp(-rows * self._config.share / self._config.late_memory)
        else:
            balance += rows * excess
        unit = self._config.share * self._memory
        self._balance = np.float32(min(max(balance, -_MOST_SAVED * unit), _MOST_OWED * unit))


def _lateness(late: npt.NDArray[np.float32], share: float) -> int:
    """The lateness that `share` of the rows exceed, interpolated between rungs on logarithmic scales."""
    above = int(np.count_nonzero(late > share))
    if above == 0:
        return 0
    if above == len(late):
        return int(_LADDER[-1])
    high, low = math.log(late[above - 1]), math.log(max(late[above], share * 1e-3))
    part = (high - math.log(share)) / (high - low)
    return int(_LADDER[above - 1] * (_LADDER[above] / _LADDER[above - 1]) ** part)


def _short(value: np.float32) -> float:
    """The shortest decimal that reads back as the same 32-bit number."""
    return float(str(value))
