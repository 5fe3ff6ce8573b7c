"""How well an estimator does on a stream: accuracy and delay, as in section 7.4 of the paper."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from braid.core.times import HOUR, MIN_TIME
from braid.eventtime.estimator import Estimator
from braid.testing.streams import Cut, Stream, chunk_times


@dataclass(frozen=True)
class Accuracy:
    """One stream-time estimate per chunk, measured exactly.

    Parameters
    ----------
    wall_time
        When each chunk was published.
    rows, late
        Its rows, and those among them behind the stream time that it met.
    delay
        Wall-clock time less stream time once the chunk was taken in, in microseconds.
    """

    wall_time: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    late: npt.NDArray[np.int64]
    delay: npt.NDArray[np.int64]

    @property
    def accuracy(self) -> float:
        """The percentage of rows that were not behind stream time when they arrived."""
        return 100.0 * (1 - float(self.late.sum()) / float(self.rows.sum()))

    @property
    def mean_delay(self) -> float:
        """The mean delay that a row finds, in microseconds."""
        return float(np.average(self.delay, weights=self.rows))

    def by_period(self, period: int = HOUR) -> npt.NDArray[np.float64]:
        """Accuracy in percent for each period in which anything arrived."""
        _, index = np.unique(self.wall_time // period, return_inverse=True)
        late = np.bincount(index, self.late)
        shares: npt.NDArray[np.float64] = 100.0 * (1 - late / np.bincount(index, self.rows))
        return shares


def measure(estimator: Estimator, stream: Stream, cuts: Iterable[Cut]) -> Accuracy:
    """Run an estimator over a stream and count the rows behind it, from its first estimate on."""
    clock = estimator.start()
    found: list[tuple[int, int, int, int]] = []
    for piece in cuts:
        before = clock.stream_time
        clock.observe(chunk_times(stream, piece))
        if before == MIN_TIME:
            continue
        late = int(np.count_nonzero(stream.event_time[piece.start : piece.stop] < before))
        found.append((piece.wall_time, piece.stop - piece.start, late, piece.wall_time - clock.stream_time))
    table = np.array(found, dtype=np.int64).reshape(-1, 4)
    return Accuracy(table[:, 0], table[:, 1], table[:, 2], table[:, 3])
