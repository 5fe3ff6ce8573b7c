"""Which columns carry event times from stage to stage: by them, watermarks reach downstream joins."""

from __future__ import annotations

from braid.eventtime.offset import SideName
from braid.plan.stages import JoinStage, Plan, SlicerStage, Stage


def carried_times(plan: Plan, stage: JoinStage) -> tuple[tuple[str, str], ...]:
    """Output columns of a join that are the event time of one of its inputs, each with its side."""
    found = []
    for side, category in (("left", stage.left), ("right", stage.right)):
        slicer = _writer(plan, category)
        if not isinstance(slicer, SlicerStage) or slicer.join_input is None:
            continue
        same = {column.name for column in slicer.columns if column.sql == slicer.join_input.time.sql}
        names = {out.name for out in stage.output if out.side == side and out.column in same}
        found += [(column.name, side) for column in stage.columns if _plain(column.sql) in names]
    return tuple(found)


def time_origin(plan: Plan, stage: SlicerStage) -> tuple[str, str] | None:
    """The category and column whose watermark is that of a slicer's event time; None if it has none."""
    if stage.join_input is None or not stage.source.internal:
        return None
    upstream = _writer(plan, stage.source.name)
    column = _plain(stage.join_input.time.sql)
    if isinstance(upstream, JoinStage) and column in dict(carried_times(plan, upstream)):
        return stage.source.name, column
    return None


def propagated_sides(plan: Plan, stage: JoinStage) -> tuple[SideName, ...]:
    """Sides of a join whose stream time is the watermark of an upstream join."""
    sides: list[SideName] = []
    for side, category in (("left", stage.left), ("right", stage.right)):
        slicer = _writer(plan, category)
        if isinstance(slicer, SlicerStage) and time_origin(plan, slicer) is not None:
            sides.append("left" if side == "left" else "right")
    return tuple(sides)


def upstream(plan: Plan, stage: Stage) -> list[Stage]:
    """The stages of the plan that write what a stage reads."""
    if isinstance(stage, JoinStage):
        names = [stage.left, stage.right]
    else:
        names = [stage.source.name] if stage.source.internal else []
    return [writer for name in names if (writer := _writer(plan, name)) is not None]


def _writer(plan: Plan, category: str) -> Stage | None:
    return next((stage for stage in plan.stages if stage.sink.name == category), None)


def _plain(sql: str) -> str:
    """A column's name without quotes; anything else stays what it is, and is no column's name."""
    return sql.strip().removeprefix("`").removesuffix("`")
