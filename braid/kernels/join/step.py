"""Steps of a join."""

from __future__ import annotations

from collections.abc import Sequence

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
