"""Event times through a join: which ones come out, and how far each one's watermark stays behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from braid.core.columns import TIME
from braid.core.side import Side
from braid.core.times import FOREVER
from braid.plan.names import quote
from braid.plan.stages.event_times import EventTimes, TimeColumn, total

if TYPE_CHECKING:
    from braid.plan.kinds.join import JoinStage


def joined_times(stage: JoinStage, inputs: Mapping[str, EventTimes]) -> tuple[JoinStage, EventTimes]:
    """The join with the watermarks of what it writes, and the event times there."""
    sides = {Side.LEFT: inputs[stage.left], Side.RIGHT: inputs[stage.right]}
    origin = {
        quote(c.name): (c.side, c.column)
        for c in stage.output
        if c.neighbour is None and c.column in sides[c.side].names
    }
    found = {c.name: origin[c.sql] for c in stage.columns if c.sql in origin}

    def lag(first: tuple[Side, str], second: tuple[Side, str]) -> int:
        """How far `second` may lie before `first`, through the times joined by if they are of two sides."""
        side, other = first[0], second[0]
        if side is other:
            return sides[side].lag(first[1], second[1])
        between = -stage.lower if side is Side.LEFT else stage.upper
        return total(sides[side].lag(first[1], TIME), between, sides[other].lag(TIME, second[1]))

    held = {
        name: total(_held(stage, side), sides[side].lag(TIME, column))
        for name, (side, column) in found.items()
    }
    watermarks = tuple(
        TimeColumn(name, side, TIME if column in sides[side].joined else column, held[name])
        for name, (side, column) in found.items()
        if held[name] < FOREVER
    )
    names = tuple(time.column for time in watermarks)
    lags = {(a, b): lag(found[a], found[b]) for a in names for b in names if a != b}
    endless = tuple(name for name in found if name not in names)
    stage = replace(stage, sink=replace(stage.sink, time_columns=names), watermarks=watermarks)
    return stage, EventTimes(names, lags, endless, writer=stage.name)


def _held(stage: JoinStage, side: Side) -> int:
    """How far behind the event times that wait in a join rows may still come out, on one side.

    The left row waits for right rows up to `upper` after it; a join without upper bound waits forever. Where
    both sides choose, a left row may also be chosen that is as far back as the bound.
    """
    if stage.upper >= FOREVER:
        return FOREVER
    if side is Side.RIGHT:
        return 0 if stage.lower > -FOREVER else FOREVER
    return stage.upper if stage.series is not None and stage.series.symmetric else 0
