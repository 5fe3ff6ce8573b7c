"""Evaluate plain views inside the statements that read them."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from sqlglot import exp

from braid.lang.errors import Diagnostic, PqlError
from braid.lang.query import OutputColumn, Query, Select, Stateful, Table, View
from braid.plan.logical.expressions import rename_relations
from braid.plan.logical.selects import feeding, inline, map_columns, map_conditions, map_lookup

MAX_NODES = 5_000
MAX_DEPTH = 150
"""Limits on one expression: what is larger takes too long to plan, or too deep a stack to print."""


def merge_views(query: Query) -> Query:
    """Compose projections and filters, so that every statement reads an input table or a join view.

    A view that a join reads stays: it is a slicer.
    """
    fed = feeding(query)
    plain: dict[str, Select] = {}
    views: list[View] = []
    for view in query.views:
        if isinstance(view.select, Stateful):
            views.append(view)
            continue
        merged = _merge(view.select, plain)
        _check_size(query, view, merged)
        if view.name in fed:
            views.append(replace(view, select=merged))
        else:
            plain[view.name] = merged
    tables: list[Table] = []
    for table in query.tables:
        assert isinstance(table.select, Select)
        merged = _merge(table.select, plain)
        _check_size(query, table, merged)
        tables.append(replace(table, select=merged))
    return replace(query, views=tuple(views), tables=tuple(tables))


def _check_size(query: Query, statement: View | Table, select: Select) -> None:
    """Views that use a column twice, on top of each other, double an expression each time."""
    for item in select.columns:
        if sum(1 for _ in islice(item.expression.walk(), MAX_NODES)) == MAX_NODES or _depth(item) > MAX_DEPTH:
            message = (
                f"column {item.name} of {statement.name} is too large once the views below it are put in"
            )
            hint = "use fewer views on top of each other, or store the rows of one of them"
            raise PqlError(query.source, [Diagnostic("PQL103", message, item.span, hint)])


def _depth(item: OutputColumn) -> int:
    deepest, stack = 0, [(item.expression, 1)]
    while stack:
        node, depth = stack.pop()
        deepest = max(deepest, depth)
        stack += [(child, depth + 1) for child in node.iter_expressions()]
    return deepest


def _merge(select: Select, plain: dict[str, Select]) -> Select:
    inner = plain.get(select.source.table)
    if inner is None:
        return select
    alias = select.source.alias
    taken = {inner.source.alias, *(lookup.alias for lookup in inner.lookups)}
    names: dict[str, str] = {}
    for lookup in select.lookups:
        count, name = 1, lookup.alias
        while name in taken:
            count += 1
            name = f"{lookup.alias}_{count}"
        taken.add(name)
        names[lookup.alias] = name

    def below(expression: exp.Expr) -> exp.Expr:
        # Rename before inlining: the expressions of the inner view may use the same aliases.
        return inline(
            rename_relations(expression, {a: n for a, n in names.items() if a != n}), alias, inner.columns
        )

    return replace(
        select,
        source=inner.source,
        columns=map_columns(select.columns, below),
        where=(*inner.where, *map_conditions(select.where, below)),
        lookups=(
            *inner.lookups,
            *(replace(map_lookup(lookup, below), alias=names[lookup.alias]) for lookup in select.lookups),
        ),
    )
