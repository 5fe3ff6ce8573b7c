"""How a join runs: what its kernel does, and how far its inputs are kept apart."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from braid.core.columns import TIME
from braid.core.config import AppConfig
from braid.core.side import Side
from braid.core.times import FOREVER
from braid.kernels.join.operator import JoinOperator
from braid.kernels.join.spec import JoinSpec
from braid.plan.physical.kernel_spec import join_spec
from braid.plan.physical.operation import Facts
from braid.plan.physical.stepping import Stepping, stepping
from braid.plan.stages.base import Plan

if TYPE_CHECKING:
    from braid.plan.kinds.join import JoinStage


def joining(plan: Plan, stage: JoinStage, options: AppConfig, facts: Facts) -> Stepping:
    """How a join runs. Rows that are late for this join find their partners in the log, but not those of a
    join after it."""
    carried = tuple(dict.fromkeys((Side(c.side), c.input) for c in stage.watermarks if c.input != TIME))
    spec = replace(join_spec(stage, options), carried=carried)
    saved = tuple(side.value for side in spec.rescued) if isinstance(spec, JoinSpec) else ()
    return stepping(
        plan,
        stage,
        options,
        facts,
        JoinOperator(spec, stage.broadcast),
        upper=_paced_upper(stage),
        rescued=() if stage.sink.internal else saved,
        unharmed=saved,
        pad_after=stage.pad_after,
        times=stage.watermarks,
        bounds=(stage.lower, stage.upper),
        single_shard=stage.single_shard,
    )


def _paced_upper(stage: JoinStage) -> int:
    """How far the right input is kept ahead of the left one.

    Two time series that choose each other, and those without a bound, are kept side by side.
    """
    if stage.series is not None and (stage.series.symmetric or stage.upper >= FOREVER):
        return 0
    return stage.upper
