"""Which columns are event times, and how far each one's watermark stays behind: the postponed watermarks.

Joins bound the difference of two event times. In a row that has both, every other two are bounded through
the joins between them: an outer join leaves either side of such a path NULL as a whole. So when rows of one
side of a join wait, by their own event time, it is known how old their other event times can be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from braid.core.columns import TIME
from braid.core.side import Side
from braid.core.times import FOREVER
from braid.plan.logical.expressions import quote
from braid.plan.stages import JoinStage, SlicerStage, Stage, TimeColumn

Lags = dict[tuple[str, str], int]
"""How far the second of two columns may lie before the first one, in microseconds; at most `FOREVER`."""
Refuse = Callable[[str, str, str], None]
"""Takes the name of a slicer, the event time that has no watermark, and the stage that loses it."""


@dataclass
class _Times:
    """Event times of a category: their names, and how far apart they may lie."""

    names: tuple[str, ...] = ()
    lags: Lags = field(default_factory=dict)
    endless: tuple[str, ...] = ()
    """Event times that fall behind any watermark."""
    joined: frozenset[str] = frozenset()
    """Names of the event time that a join's input is joined by."""
    writer: str = ""

    def lag(self, first: str, second: str) -> int:
        return 0 if first == second else self.lags.get((first, second), FOREVER)


def with_watermarks(stages: list[Stage], refuse: Refuse) -> tuple[Stage, ...]:
    """The stages with the event times that they carry; they must be in order of dependency."""
    inputs: dict[str, _Times] = {}
    stored: dict[str, _Times] = {}
    result: list[Stage] = []
    for stage in stages:
        if isinstance(stage, SlicerStage):
            if stage.join_input is not None:
                stage, inputs[stage.sink.name] = _slicer(
                    stage, stored.get(stage.source.name, _Times()), refuse
                )
        elif stage.sink.internal:
            stage, stored[stage.sink.name] = _join(stage, inputs)
        result.append(stage)
    return tuple(result)


def _slicer(stage: SlicerStage, source: _Times, refuse: Refuse) -> tuple[SlicerStage, _Times]:
    """Event times in a join's input; `__time` is one, and may be there a second time under its own name."""
    assert stage.join_input is not None
    time = stage.join_input.time.sql
    for name in source.endless:
        if quote(name) == time:
            refuse(stage.name, name, source.writer)
    origin = {quote(name): name for name in source.names}
    nodes = {TIME: origin.get(time, TIME)}
    for column in stage.columns:
        if column.sql in origin:
            nodes[column.name] = origin[column.sql]
        elif column.sql == time:
            nodes[column.name] = TIME
    lags = {(a, b): source.lag(nodes[a], nodes[b]) for a in nodes for b in nodes if a != b}
    watermarks = tuple((name, known) for name, known in nodes.items() if known != TIME)
    joined = frozenset(name for name in nodes if nodes[name] == nodes[TIME])
    return replace(stage, watermarks=watermarks), _Times(tuple(nodes), lags, joined=joined)


def _join(stage: JoinStage, inputs: dict[str, _Times]) -> tuple[JoinStage, _Times]:
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
        return _sum(sides[side].lag(first[1], TIME), between, sides[other].lag(TIME, second[1]))

    held = {
        name: _sum(_held(stage, side), sides[side].lag(TIME, column))
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
    return stage, _Times(names, lags, endless, writer=stage.name)


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


def _sum(*lags: int) -> int:
    return FOREVER if any(lag >= FOREVER for lag in lags) else sum(lags)
