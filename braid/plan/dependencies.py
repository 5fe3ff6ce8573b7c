"""What a plan says about the inputs of a stage: who writes them, and what is known of their event times."""

from __future__ import annotations

from braid.plan.stages.base import Plan, Stage


def writers(plan: Plan, stage: Stage) -> dict[str, Stage]:
    """The stages of the plan that write what a stage reads, by the name of the input."""
    found = {name: plan.writer(category) for name, category in stage.reads().items()}
    return {name: writer for name, writer in found.items() if writer is not None}


def upstream(plan: Plan, stage: Stage) -> list[Stage]:
    """The stages of the plan that write what a stage reads."""
    return list(writers(plan, stage).values())


def propagated_inputs(plan: Plan, stage: Stage) -> tuple[str, ...]:
    """Inputs whose stream time is the watermark of an operator upstream."""
    return tuple(name for name, writer in writers(plan, stage).items() if writer.propagates)


def declared_disorder(plan: Plan, stage: Stage) -> dict[str, int]:
    """Inputs whose order is declared, with how far a record may be behind an earlier one."""
    found = {name: writer.disorder for name, writer in writers(plan, stage).items()}
    return {name: disorder for name, disorder in found.items() if disorder is not None}


def upstream_operators(plan: Plan, stage: Stage) -> dict[str, list[Stage]]:
    """Per input, all stateful stages whose rows come to it in the end."""
    return {name: _operators_before(plan, writer) for name, writer in writers(plan, stage).items()}


def _operators_before(plan: Plan, stage: Stage) -> list[Stage]:
    found: list[Stage] = []
    for writer in upstream(plan, stage):
        found += [writer] if writer.stateful else []
        found += _operators_before(plan, writer)
    return found


def reads_kept(plan: Plan, stage: Stage) -> bool:
    """Whether a stage looks rows up in a table that a stage before it maintains."""
    before = plan.stages[: plan.stages.index(stage)]
    kept = {other.sink.name for other in before if other.sink.kind.connector.keyed}
    return any(lookup.table in kept for lookup in stage.lookups)
