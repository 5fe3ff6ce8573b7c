"""Which rows of a sample can be judged: those whose whole window lies in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from braid.core.times import FOREVER, MAX_TIME, MIN_TIME, clamp_time
from braid.kernels.arrays import Ints, Mask

_SETTLED = 0.02
"""Share of a sample after which its greatest event time is one that the stream had before, too."""
_ON_TIME = 99.5
"""Percentile of how late rows come: of times that far back, all rows have arrived."""


@dataclass(frozen=True)
class Coverage:
    """Event times of which a sample has (nearly) all rows; none if `high` is below `low`."""

    low: int
    high: int

    def inner(self, other: Coverage, lower: int, upper: int) -> Coverage:
        """Where rows have their whole window, `[time + lower, time + upper]`, in another sample."""
        return Coverage(
            max(self.low, clamp_time(other.low - lower)), min(self.high, clamp_time(other.high - upper))
        )

    def shrunk(self, by: int) -> Coverage:
        """Without so much at either end."""
        return Coverage(clamp_time(self.low + by), clamp_time(self.high - by))

    @property
    def span(self) -> int:
        """How long it is; 0 if there is nothing."""
        return max(0, self.high - self.low)


@dataclass(frozen=True, eq=False)
class Times:
    """Event times of what an operator reads, in order of arrival.

    Parameters
    ----------
    rows
        Numbers of the rows.
    micros
        Their event times.
    known
        Which of them have one.
    """

    rows: Ints
    micros: Ints
    known: Mask

    def coverage(self) -> Coverage:
        """What a sample cut out of a stream covers: rows from before the cut may be missing at its beginning,
        and at its end those that have yet to come."""
        micros = self.micros[self.known]
        if not len(micros):
            return Coverage(MAX_TIME, MIN_TIME)
        frontier = np.maximum.accumulate(micros)
        late = float(np.percentile(frontier - micros, _ON_TIME))
        return Coverage(int(frontier[int(len(micros) * _SETTLED)]), int(frontier[-1] - late))

    def weights(self, coverage: Coverage) -> npt.NDArray[np.float64]:
        """How much each row counts: 1 if it is covered, or has no time and comes among those that are."""
        inside = self.known & (self.micros >= coverage.low) & (self.micros <= coverage.high)
        places = np.flatnonzero(inside)
        if len(places):
            among = slice(places[0], places[-1] + 1)
            inside[among] |= ~self.known[among]
        return inside.astype(np.float64)


def bounded(bound: int) -> int:
    """A bound of a window, or 0 where there is none."""
    return 0 if abs(bound) >= FOREVER else bound
