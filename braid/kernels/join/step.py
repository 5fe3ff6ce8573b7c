"""Steps of a join, and what comes out of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from braid.core.positions import Position
from braid.core.side import Side
from braid.kernels.step import Step


def two_sided(
    left: Sequence[Position], right: Sequence[Position], left_time: int, right_time: int, wall_time: int = 0
) -> Step:
    """The step of a join."""
    return Step(
        {Side.LEFT: left, Side.RIGHT: right}, {Side.LEFT: left_time, Side.RIGHT: right_time}, wall_time
    )


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
