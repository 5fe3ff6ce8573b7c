"""Show a plan: a tree for people, JSON for programs, a Mermaid graph for documents, PQL for the curious."""

from __future__ import annotations

import json

from braid.plan.show.outline import Outline
from braid.plan.stages.base import Plan
from braid.plan.stages.tree import Node


def explain_text(plan: Plan) -> str:
    """A tree per output: bounds, keys, buffering per side, and what is evaluated where."""
    outline = Outline(plan)
    read = {name for stage in plan.stages for name in stage.reads().values()}
    root = Node(_application(plan))
    for stage in plan.stages:
        if not (stage.sink.internal and stage.sink.name in read):
            root.children.append(outline.stage(stage))
    return "\n".join(root.lines()) + "\n"


def explain_mermaid(plan: Plan) -> str:
    """A flowchart of sources, stages and sinks."""
    lines, ids = ["flowchart LR"], dict[str, str]()

    def place(name: str, shape: str) -> str:
        if name not in ids:
            ids[name] = f"c{len(ids)}"
            lines.append(f"  {ids[name]}{shape.format(_mermaid(name))}")
        return ids[name]

    for position, stage in enumerate(plan.stages):
        node = f"s{position}"
        lines.append(f"  {node}[{_mermaid(stage.label())}]")
        for kind, name in [*stage.sources(), *(("lookup", lookup.table) for lookup in stage.lookups)]:
            lines.append(f"  {place(f'{kind} {name}', '[({})]')} --> {node}")
        lines.append(f"  {node} --> {place(stage.sink.place, '[({})]')}")
    return "\n".join(lines) + "\n"


def _application(plan: Plan) -> str:
    options = ", ".join(f"{name} = {value}" for name, value in plan.options)
    return f"application {plan.application}" + (f" with {options}" if options else "")


def _mermaid(text: str) -> str:
    return json.dumps(text.replace('"', "'"), ensure_ascii=False)
