"""How a join runs: its shards, what paces it, what it waits for, and who stores its results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from braid.core.columns import TIME
from braid.core.config import AppConfig
from braid.kernels.join.spec import AnySpec, JoinSpec
from braid.plan.dependencies import (
    declared_disorder,
    paced_upper,
    propagated_sides,
    rescued_sides,
    upstream_joins,
)
from braid.plan.physical.kernel_spec import join_spec
from braid.plan.physical.layout import Layout, first_layout
from braid.plan.physical.operation import Facts, Operation
from braid.plan.stages.base import Plan
from braid.plan.time_words import duration, order

if TYPE_CHECKING:
    from braid.plan.kinds.join import JoinStage


@dataclass(frozen=True)
class Joining(Operation):
    """How a join runs.

    Parameters
    ----------
    spec
        What the kernel does.
    layout
        Shards and state partitions.
    upper
        How far the right input is kept ahead of the left one.
    propagated
        Sides that carry the watermarks of an upstream join.
    disorder
        Sides whose order is declared, with how far a record may be behind an earlier one.
    rescued
        Sides whose late rows find their partners in the log.
    held_by
        Per side, the joins upstream whose rows must not come late: while they hold any, the side is not
        taken for idle.
    direct
        Whether workers store results themselves, since nothing after the join needs Catalyst. None if that
        depends on types that are not known yet.
    tells_buffered
        Whether others want to know how many rows it buffers.
    """

    spec: AnySpec
    layout: Layout
    upper: int
    propagated: tuple[str, ...]
    disorder: Mapping[str, int]
    rescued: tuple[str, ...]
    held_by: Mapping[str, tuple[str, ...]]
    direct: bool | None
    tells_buffered: bool

    @property
    def texts(self) -> list[str]:
        """In words."""
        shards, partitions = self.layout.shards, self.layout.partitions
        found = [
            f"{shards} shard{'s' * (shards != 1)} in {partitions} state partition{'s' * (partitions != 1)}"
        ]
        found.append(f"the right input is kept {duration(self.upper)} ahead of the left one")
        for side in self.propagated:
            found.append(f"{side} stream time: the watermark of the join before")
        found += [f"{side} stream time: {order(disorder)}" for side, disorder in self.disorder.items()]
        found += [f"{side} rows that come late find their partners in the log" for side in self.rescued]
        for side, joins in self.held_by.items():
            found.append(f"the {side} input is not idle while rows wait in {', '.join(joins)}")
        stored = "by the workers of the join if types allow, else after Catalyst"
        if self.direct is not None:
            stored = "by the workers of the join" if self.direct else "after Catalyst"
        found.append(f"results are stored {stored}")
        return found


def joining(plan: Plan, stage: JoinStage, options: AppConfig, facts: Facts) -> Joining:
    """How a join runs."""
    carried = tuple(dict.fromkeys((c.side, c.input) for c in stage.watermarks if c.input != TIME))
    spec = replace(join_spec(stage, options), carried=carried)
    saved = spec.rescued if isinstance(spec, JoinSpec) else ()
    return Joining(
        spec=spec,
        layout=facts.layout or first_layout(1 if stage.single_shard else options.shards, facts.executors),
        upper=paced_upper(stage),
        propagated=propagated_sides(plan, stage),
        disorder=dict(declared_disorder(plan, stage).items()),
        rescued=rescued_sides(stage, spec),
        held_by={
            side: tuple(join.name for join in joins)
            for side, joins in upstream_joins(plan, stage).items()
            if joins and side not in saved
        },
        direct=facts.expressible if may_store_directly(stage) else False,
        tells_buffered=options.max_buffered_rows is not None or stage.sink.internal,
    )


def may_store_directly(stage: JoinStage) -> bool:
    """Whether nothing after a join needs Catalyst, as far as the plan says; the rest depends on types."""
    sink = stage.sink.kind.connector
    plain = stage.filter is None and stage.sink.shard_by is None and not stage.lookups
    return plain and not sink.keyed and not sink.filed
