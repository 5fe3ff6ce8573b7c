"""How queries that are in both plans will run otherwise: the difference of two physical plans."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from braid.core.config import parse_options
from braid.plan.physical.operation import Facts
from braid.plan.physical.query import physical_query
from braid.plan.stages.base import Plan


@dataclass(frozen=True)
class QueryChange:
    """What a query no longer does, and what it does instead, in the words of the physical plan."""

    name: str
    before: tuple[str, ...]
    after: tuple[str, ...]


def query_changes(old: Plan, new: Plan) -> Iterator[QueryChange]:
    """Queries that run otherwise, as far as the plans say; facts of the machine may still decide."""
    was, now = _texts(old), _texts(new)
    for name, after in now.items():
        before = was.get(name, after)
        if before != after:
            gone = tuple(text for text in before if text not in after)
            yield QueryChange(name, gone, tuple(text for text in after if text not in before))


def _texts(plan: Plan) -> dict[str, list[str]]:
    options = parse_options(dict(plan.options))
    found = {}
    for stage in plan.stages:
        query = physical_query(plan, stage, options, Facts())
        found[stage.name] = [*query.operation.texts, f"store in {query.target.text}"]
    return found
