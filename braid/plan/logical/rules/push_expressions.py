"""Evaluate left expressions and constants before the join (section 4.2 of the paper).

That is right as long as the left side is never padded with NULLs, and it keeps them in the left slicer's
output, where they can be redefined without touching the join. Expressions over the right side stay after
the join, because a failed match makes them NULL.
"""

from __future__ import annotations

from dataclasses import replace

from braid.core.side import Side
from braid.lang.query import Query
from braid.plan.logical.expressions import column, output
from braid.plan.logical.selects import Parts, each_join


def push_expressions(query: Query) -> Query:
    """Move columns over the left side alone to its slicer, under their own names."""
    return each_join(query, _push)


def _push(parts: Parts) -> Parts:
    if parts.on.type.pads(Side.RIGHT):
        return parts
    passed, after = list(parts.select.columns), []
    done = {c.name for c in passed}
    for item in parts.post.select.columns:
        if item.name in done or Side.RIGHT in parts.sides(item.expression):
            after.append(item)
            continue
        value = parts.into_slicer(item.expression, Side.LEFT)
        parts = parts.with_column(Side.LEFT, output(item.name, value, item.type, item.span))
        origin = column(item.name, parts.left.name, item.type)
        passed.append(output(item.name, origin, item.type, item.span))
        after.append(output(item.name, column(item.name, parts.join.name, item.type), item.type, item.span))
    parts = parts.with_join(replace(parts.select, columns=tuple(passed)))
    return parts.with_post(replace(parts.post.select, columns=tuple(after)))
