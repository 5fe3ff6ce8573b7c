"""Names of columns in the inputs of joins, kept through an update: blocks that are there have the old ones.

What the planner calls a column of a join's input depends on where it is evaluated, and so on the type of the
join. A column that is computed as one before is the same column, and rows in flight have it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from braid.core.side import Side
from braid.plan.kinds.slicer import SlicerStage
from braid.plan.stages.base import Plan, Stage

if TYPE_CHECKING:
    from braid.plan.kinds.join import JoinStage


def adopting(stage: JoinStage, new: Plan, before: JoinStage, old: Plan) -> dict[str, Stage]:
    """The join and its slicers, with the names that columns of its inputs have in the old plan."""
    found: dict[str, Stage] = {}
    for side in Side:
        slicer = stage.slicer(new, side)
        names = _known(before.slicer(old, side), slicer)
        found[slicer.name] = _slicer(slicer, names)
        found[stage.name] = stage = _join(stage, side, names)
    return found


def _known(old: SlicerStage, new: SlicerStage) -> dict[str, str]:
    """Columns that the old slicer computes, too, by the new one's names."""
    taken, there = {column.name for column in new.columns}, {column.name for column in old.columns}
    found: dict[str, str] = {}
    for column in new.columns:
        for known in old.columns:
            same = (known.sql, known.type) == (column.sql, column.type)
            if column.name not in there and same and known.name not in taken:
                found[column.name] = known.name
                taken.add(known.name)
                break
    return found


def _slicer(stage: SlicerStage, names: dict[str, str]) -> SlicerStage:
    return replace(
        stage,
        columns=tuple(replace(column, name=names.get(column.name, column.name)) for column in stage.columns),
        watermarks=tuple((names.get(name, name), source) for name, source in stage.watermarks),
    )


def _join(stage: JoinStage, side: Side, names: dict[str, str]) -> JoinStage:
    return replace(
        stage,
        output=tuple(
            replace(column, column=names.get(column.column, column.column)) if column.side is side else column
            for column in stage.output
        ),
        watermarks=tuple(
            replace(time, input=names.get(time.input, time.input)) if time.side == side else time
            for time in stage.watermarks
        ),
    )
