"""What goes into a join and what comes out of it, micro-batch by micro-batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from braid.core.positions import Position
from braid.core.side import Side


class Step(NamedTuple):
    """One micro-batch: new blocks per side in order of arrival, and the stream times after them.

    `wall_time` matters only to joins that pad rows after a wall-clock wait; like the stream times it must
    be the same when a step is replayed.
    """

    left: Sequence[Position]
    right: Sequence[Position]
    left_time: int
    right_time: int
    wall_time: int = 0


@dataclass(frozen=True)
class Output:
    """What a step emits.

    Parameters
    ----------
    rows
        Output columns of the join.
    lost
        Rows that lost a possible match or could not take part, with the reason: see `kernels.lost`.
    counts
        Counters of this step, and gauges `pending_*` and `blocks_*`.
    distances
        Matches by log2 of their distance to the lower and upper bound, in microseconds.
    held
        Least value, in microseconds, that each carried time column has among the rows still buffered.
    """

    rows: pa.Table
    lost: pa.Table
    counts: dict[str, int]
    distances: npt.NDArray[np.int64]
    held: Mapping[tuple[Side, str], int] = field(default_factory=dict)
