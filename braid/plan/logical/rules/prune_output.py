"""Let a join pass on only what the statement after it uses."""

from __future__ import annotations

from dataclasses import replace

from braid.lang.query import Query, Stateful
from braid.plan.logical.selects import narrow, output_expressions, readers, used


def prune_output(query: Query) -> Query:
    """Keep of a join or operator what the statement after it uses; what the slicers write stays as it is."""
    reading = readers(query)
    views = []
    for view in query.views:
        if isinstance(view.select, Stateful) and view.name in reading:
            needed = {
                name
                for reader in reading[view.name]
                for table, name in used(output_expressions(reader.select))
                if table == view.name
            }
            view = replace(view, select=narrow(view.select, needed))
        views.append(view)
    return replace(query, views=tuple(views))
