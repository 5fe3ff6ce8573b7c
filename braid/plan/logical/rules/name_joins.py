"""Give a join that is written straight into a table a view of its own, so that every join is a view."""

from __future__ import annotations

from dataclasses import replace

from braid.lang.query import Query, Relation, Select, Stateful, Table, View
from braid.plan.logical.expressions import column, output


def name_joins(query: Query) -> Query:
    """`CREATE TABLE t AS SELECT ... JOIN ...` becomes a view `t` and a table that selects all of it."""
    views, tables = list(query.views), []
    for table in query.tables:
        if isinstance(table.select, Stateful):
            view = View(table.name, table.select, table.span)
            views.append(view)
            table = replace(table, select=_all_of(view, table))
        tables.append(table)
    return replace(query, views=tuple(views), tables=tuple(tables))


def _all_of(view: View, table: Table) -> Select:
    columns = (output(c.name, column(c.name, view.name, c.type), c.type, c.span) for c in view.columns)
    return Select(Relation(view.name, view.name, table.span), tuple(columns), table.span)
