"""Evaluate plain views inside the statements that read them."""

from __future__ import annotations

from dataclasses import replace

from braid.lang.query import JoinSelect, Query, Select, View
from braid.plan.selects import inline, map_columns, map_conditions


def merge_views(query: Query) -> Query:
    """Compose projections and filters, so that every statement reads an input table or a join view.

    A view that a join reads stays: it is a slicer.
    """
    feeding = {
        relation.table
        for view in query.views
        if isinstance(view.select, JoinSelect)
        for relation in view.select.relations
    }
    plain: dict[str, Select] = {}
    views: list[View] = []
    for view in query.views:
        if isinstance(view.select, JoinSelect):
            views.append(view)
            continue
        merged = _merge(view.select, plain)
        if view.name in feeding:
            views.append(replace(view, select=merged))
        else:
            plain[view.name] = merged
    tables = tuple(
        replace(table, select=_merge(table.select, plain)) if isinstance(table.select, Select) else table
        for table in query.tables
    )
    return replace(query, views=tuple(views), tables=tables)


def _merge(select: Select, plain: dict[str, Select]) -> Select:
    inner = plain.get(select.source.table)
    if inner is None:
        return select
    alias = select.source.alias
    return replace(
        select,
        source=inner.source,
        columns=map_columns(select.columns, lambda e: inline(e, alias, inner.columns)),
        where=(
            *inner.where,
            *map_conditions(select.where, lambda e: inline(e, alias, inner.columns)),
        ),
    )
