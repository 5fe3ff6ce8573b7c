"""Leave out what no table needs: a view or input that nothing reads runs nothing."""

from __future__ import annotations

from dataclasses import replace

from braid.lang.query import Query


def drop_unused(query: Query) -> Query:
    """Keep the inputs and views that some table reads, directly or not."""
    needed = {relation.table for table in query.tables for relation in table.select.relations}
    for view in reversed(query.views):
        if view.name in needed:
            needed |= {relation.table for relation in view.select.relations}
    return replace(
        query,
        inputs=tuple(table for table in query.inputs if table.name in needed),
        views=tuple(view for view in query.views if view.name in needed),
    )
