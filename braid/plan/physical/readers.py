"""Which queries of a plan read which categories of the log, relays included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from braid.core.connectors import SourceKind
from braid.plan.physical.targets import category_of, relay_name
from braid.plan.stages.base import Plan


@dataclass(frozen=True)
class CategoryReader:
    """A query of a plan, and the categories that it reads.

    Parameters
    ----------
    query
        Its name: that of the stage, or of what relays the stage's rows.
    inputs
        The categories by the names of its inputs.
    stateful
        Whether its state refers to blocks of them.
    """

    query: str
    inputs: Mapping[str, str]
    stateful: bool = False


def category_readers(plan: Plan) -> list[CategoryReader]:
    """All queries of a plan, relays included, with the categories that each one reads; some read none."""
    found = []
    for stage in plan.stages:
        inputs = stage.reads() or {
            name: name for kind, name in stage.sources() if SourceKind(kind).connector.logged
        }
        found.append(CategoryReader(stage.name, inputs, stage.stateful))
        if stage.sink.kind.connector.relayed:
            relayed = category_of(plan.application, stage)
            found.append(CategoryReader(relay_name(stage), {relayed: relayed}))
    return found
