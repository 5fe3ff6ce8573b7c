"""How a stateful operator runs: its shards, what paces it, what it waits for, and who stores its results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from braid.core.config import AppConfig
from braid.kernels.operator import OperatorSpec
from braid.plan.dependencies import declared_disorder, propagated_inputs, upstream_operators
from braid.plan.physical.layout import Layout, first_layout
from braid.plan.physical.operation import Facts, Operation
from braid.plan.stages.base import Plan, Stage
from braid.plan.stages.event_times import TimeColumn
from braid.plan.time_words import duration, order


@dataclass(frozen=True)
class Stepping(Operation):
    """How a stateful operator runs: step by step, each shard by itself.

    Parameters
    ----------
    operator
        What the kernel does.
    layout
        Shards and state partitions.
    upper
        Of a join: how far the right input is kept ahead of the left one.
    propagated
        Inputs that carry the watermarks of an operator upstream.
    disorder
        Inputs whose order is declared, with how far a record may be behind an earlier one.
    rescued
        Inputs whose late rows find their partners in the log.
    held_by
        Per input, the operators upstream whose rows must not come late: while they hold any, the input is not
        taken for idle.
    pad_after
        How long rows wait by the wall clock; None if they wait for stream time.
    times, bounds
        Event times in what it writes, with what holds their watermarks back; of a join also its bounds.
    direct
        Whether workers store results themselves, since nothing after the operator needs Catalyst. None if
        that depends on types that are not known yet.
    tells_buffered
        Whether others want to know how many rows it buffers.
    """

    operator: OperatorSpec
    layout: Layout
    upper: int | None
    propagated: tuple[str, ...]
    disorder: Mapping[str, int]
    rescued: tuple[str, ...]
    held_by: Mapping[str, tuple[str, ...]]
    pad_after: int | None
    times: tuple[TimeColumn, ...]
    bounds: tuple[int, int] | None
    direct: bool | None
    tells_buffered: bool

    @property
    def texts(self) -> list[str]:
        """In words."""
        shards, partitions = self.layout.shards, self.layout.partitions
        found = [
            f"{shards} shard{'s' * (shards != 1)} in {partitions} state partition{'s' * (partitions != 1)}"
        ]
        if self.upper is not None:
            found.append(f"the right input is kept {duration(self.upper)} ahead of the left one")
        for name in self.propagated:
            found.append(f"{name} stream time: the watermark of the operator before")
        found += [f"{name} stream time: {order(disorder)}" for name, disorder in self.disorder.items()]
        found += [f"{name} rows that come late find their partners in the log" for name in self.rescued]
        for name, holders in self.held_by.items():
            found.append(f"the {name} input is not idle while rows wait in {', '.join(holders)}")
        stored = "by the workers of the operator if types allow, else after Catalyst"
        if self.direct is not None:
            stored = "by the workers of the operator" if self.direct else "after Catalyst"
        found.append(f"results are stored {stored}")
        return found


def stepping(
    plan: Plan,
    stage: Stage,
    options: AppConfig,
    facts: Facts,
    operator: OperatorSpec,
    *,
    upper: int | None = None,
    rescued: tuple[str, ...] = (),
    unharmed: tuple[str, ...] = (),
    pad_after: int | None = None,
    times: tuple[TimeColumn, ...] = (),
    bounds: tuple[int, int] | None = None,
    single_shard: bool = False,
) -> Stepping:
    """How a stateful stage runs; inputs in `unharmed` lose nothing when rows come late."""
    return Stepping(
        operator=operator,
        layout=facts.layout or first_layout(1 if single_shard else options.shards, facts.executors),
        upper=upper,
        propagated=propagated_inputs(plan, stage),
        disorder=declared_disorder(plan, stage),
        rescued=rescued,
        held_by={
            name: tuple(holder.name for holder in holders)
            for name, holders in upstream_operators(plan, stage).items()
            if holders and name not in unharmed
        },
        pad_after=pad_after,
        times=times,
        bounds=bounds,
        direct=facts.expressible if may_store_directly(stage) else False,
        tells_buffered=options.max_buffered_rows is not None or stage.sink.internal,
    )


def may_store_directly(stage: Stage) -> bool:
    """Whether nothing after an operator needs Catalyst, as far as the plan says; types may object."""
    sink = stage.sink.kind.connector
    plain = stage.filter is None and stage.sink.shard_by is None and not stage.lookups
    return plain and not sink.keyed and not sink.filed
