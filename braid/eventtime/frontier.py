"""The frontier of a stream: how far its event times have come, as far as they can be believed."""

from __future__ import annotations

import numpy as np

from braid.core.json_values import Json, bad_snapshot, read_float, read_int
from braid.core.times import MIN_TIME, MINUTE
from braid.eventtime.sketch import Distribution

_STEP = MINUTE
"""An advance of up to this many microseconds is always believed."""
_PACES = 8.0
"""So is one of this many times the usual advance per chunk, or the spread of a large chunk's older half."""
_SMOOTHING = 0.25
"""How much one chunk counts in the usual advance."""
_ENOUGH_ROWS = 64
_ENOUGH_CHUNKS = 4
"""Rows, of two chunks at least, or else chunks, that confirm an advance that was not believed at first."""


class Frontier:
    """The greatest believable event time.

    One clock that is days ahead must not take the stream with it, since stream time never goes back. So
    the greatest event times of a chunk count only if they are close to the rest of it, and a chunk that is
    far ahead as a whole only once the chunks after it confirm it.
    """

    def __init__(self) -> None:
        self.time = MIN_TIME
        self._pace = np.float32(0)
        self._jump: tuple[int, int, int] | None = None

    def advance(self, times: Distribution) -> int:
        """Take in a chunk that is not empty; returns by how many microseconds the frontier moved."""
        before = self.time
        # The lower median, so that of two rows the one that is not ahead counts.
        middle = times.quantile(0.49)
        spread = middle - times.quantile(0.25) if times.count >= _ENOUGH_ROWS else 0
        allowed = max(_STEP, int(_PACES * max(float(self._pace), spread)))
        if middle > before + allowed:
            least = self._confirm(middle, times.count)
            if least is None:
                return 0
            self.time = least
        self._jump = None
        limit = self.time + allowed
        top = next((time for time in _tops(times, middle) if time <= limit), middle)
        self.time = max(self.time, top)
        if before == MIN_TIME:
            return 0
        moved = self.time - before
        self._pace = np.float32(float(self._pace) + _SMOOTHING * (moved - float(self._pace)))
        return moved

    def _confirm(self, middle: int, rows: int) -> int | None:
        """Count a chunk that is far ahead; the least median of such chunks in a row once they suffice."""
        least, known, chunks = self._jump or (middle, 0, 0)
        self._jump = least, known, chunks = min(least, middle), known + rows, chunks + 1
        wanted = 1 if self.time == MIN_TIME else 2
        enough = chunks >= _ENOUGH_CHUNKS or (known >= _ENOUGH_ROWS and chunks >= wanted)
        return least if enough else None

    def snapshot(self) -> list[Json]:
        """Time, pace, and the jump that waits to be confirmed: least median, rows, chunks."""
        return [self.time, float(str(self._pace)), *(self._jump or ())]

    @classmethod
    def restore(cls, value: Json) -> Frontier:
        """Read back a snapshot."""
        if not isinstance(value, list) or len(value) not in (2, 5):
            raise bad_snapshot("frontier", value, "a list of 2 or 5 numbers")
        numbers = dict(zip(("time", "pace", "least", "rows", "chunks"), value, strict=False))
        frontier = cls()
        frontier.time = read_int(numbers, "time")
        frontier._pace = np.float32(read_float(numbers, "pace"))
        if len(numbers) == 5:
            least, rows, chunks = (read_int(numbers, name) for name in ("least", "rows", "chunks"))
            frontier._jump = least, rows, chunks
        return frontier


def _tops(times: Distribution, middle: int) -> list[int]:
    """Ever less daring ideas of how far a chunk has come: its maximum, if that is no outlier, and less."""
    high = times.quantile(0.9)
    furthest = high + (high - middle)
    return [top for top in (times.bounds()[1], times.quantile(0.99)) if top <= furthest] + [high]
