"""From a stage to the specification that its kernel runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from braid.core.config import AppConfig
from braid.kernels.join.spec import AnySpec, JoinSpec, SeriesSpec

if TYPE_CHECKING:
    from braid.plan.kinds.join import JoinStage


def join_spec(stage: JoinStage, options: AppConfig) -> AnySpec:
    """What `braid.kernels.join.kernel.open_join` takes: an interval join, or a join of two time series."""
    if stage.series is not None:
        return SeriesSpec(
            type=stage.type,
            mode=stage.series,
            keys=stage.keys,
            output=stage.output,
            within=stage.within,
            inclusive=stage.inclusive,
        )
    return JoinSpec(
        type=stage.type,
        lower=stage.lower,
        upper=stage.upper,
        keys=stage.keys,
        output=stage.output,
        match=stage.match,
        residual=stage.residual,
        max_per_key=options.max_per_key,
        late_lookup=options.late_lookup,
        consume=stage.consume,
        pad_after=stage.pad_after,
    )
