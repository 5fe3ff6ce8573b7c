"""What a plan says about the inputs of a stage: who writes them, and what is known of their event times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from braid.core.columns import TIME
from braid.core.side import Side
from braid.core.times import FOREVER
from braid.kernels.join.spec import AnySpec, JoinSpec
from braid.plan.stages.base import Plan, Stage

if TYPE_CHECKING:
    from braid.plan.kinds.join import JoinStage


def propagated_sides(plan: Plan, stage: JoinStage) -> tuple[str, ...]:
    """Sides of a join whose stream time is the watermark of an upstream join."""
    return tuple(name for name in Side if TIME in dict(stage.slicer(plan, name).watermarks))


def declared_disorder(plan: Plan, stage: JoinStage) -> dict[str, int]:
    """Sides of a join whose order is declared, with how far a record may be behind an earlier one."""
    found = {name: stage.slicer(plan, name).source.disorder for name in Side}
    return {name: disorder for name, disorder in found.items() if disorder is not None}


def rescued_sides(stage: JoinStage, spec: AnySpec) -> tuple[str, ...]:
    """Sides of a join whose late rows still find their partners, and are late for no other join."""
    if not isinstance(spec, JoinSpec) or stage.sink.internal:
        return ()
    return tuple(side.value for side in spec.rescued)


def paced_upper(stage: JoinStage) -> int:
    """How far the right input of a join is kept ahead of the left one.

    Two time series that choose each other, and those without a bound, are kept side by side.
    """
    if stage.series is not None and (stage.series.symmetric or stage.upper >= FOREVER):
        return 0
    return stage.upper


def upstream_joins(plan: Plan, stage: JoinStage) -> dict[str, list[Stage]]:
    """Per side of a join, all joins whose rows come to it in the end."""
    return {name: _joins_before(plan, stage.slicer(plan, name)) for name in Side}


def _joins_before(plan: Plan, stage: Stage) -> list[Stage]:
    found: list[Stage] = []
    for writer in upstream(plan, stage):
        found += [writer] if writer.stateful else []
        found += _joins_before(plan, writer)
    return found


def upstream(plan: Plan, stage: Stage) -> list[Stage]:
    """The stages of the plan that write what a stage reads."""
    return [writer for name in stage.reads().values() if (writer := plan.writer(name)) is not None]


def reads_kept(plan: Plan, stage: Stage) -> bool:
    """Whether a stage looks rows up in a table that a stage before it maintains."""
    before = plan.stages[: plan.stages.index(stage)]
    kept = {other.sink.name for other in before if other.sink.kind.connector.keyed}
    return any(lookup.table in kept for lookup in stage.lookups)
