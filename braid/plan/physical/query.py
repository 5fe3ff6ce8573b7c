"""The physical plan: one record per running query, from its stage, options, and facts that are passed in."""

from __future__ import annotations

from dataclasses import dataclass

from braid.core.config import AppConfig
from braid.plan.physical.operation import Facts, Operation
from braid.plan.physical.targets import Target, target_of
from braid.plan.stages.base import Plan, Stage


@dataclass(frozen=True)
class PhysicalQuery:
    """One streaming query.

    Parameters
    ----------
    name
        The stage's.
    title
        What the stage is, in words.
    operation
        How its rows are computed.
    target
        Where they are stored.
    """

    name: str
    title: str
    operation: Operation
    target: Target


def physical_query(plan: Plan, stage: Stage, options: AppConfig, facts: Facts) -> PhysicalQuery:
    """How a stage runs."""
    target = target_of(plan.application, stage, options)
    return PhysicalQuery(stage.name, stage.title(), stage.operation(plan, options, facts), target)
