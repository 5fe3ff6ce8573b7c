"""Steps of a join, and what comes out of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from braid.core.counters import Counters
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
        What this step has counted, by input.
    """

    rows: pa.Table
    lost: pa.Table
    counts: Counters
