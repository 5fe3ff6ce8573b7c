"""The physical plan in words: how each query reads, computes and stores."""

from __future__ import annotations

from braid.core.config import parse_options
from braid.plan.physical.operation import Facts
from braid.plan.physical.query import physical_query
from braid.plan.stages.base import Plan
from braid.plan.stages.tree import Node


def explain_physical(plan: Plan) -> str:
    """A section per query, as it would start on one executor."""
    options = parse_options(dict(plan.options))
    root = Node(f"application {plan.application}, {len(plan.stages)} queries")
    for stage in plan.stages:
        query = physical_query(plan, stage, options, Facts())
        node = Node(query.title, [Node(f"read {kind} {name}") for kind, name in stage.sources()])
        node.children += [Node(text) for text in query.operation.texts]
        node.children.append(Node(f"store in {query.target.text}"))
        root.children.append(node)
    return "\n".join(root.lines()) + "\n"
