"""Take every join view apart: a slicer view per side, the join alone, and the rest after it.

At first the slicers only pass on the columns that are used, the join passes on those, and every expression of
the view is evaluated after the join, which is always right. The rules that follow move work to the slicers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sqlglot import exp

from braid.core.side import Side
from braid.kernels.join.spec import Neighbour
from braid.lang.errors import Diagnostic, PqlError
from braid.lang.query import Column, JoinSelect, OutputColumn, Query, Relation, Select, View
from braid.plan.logical.expressions import Replace, column, output, substitute
from braid.plan.logical.neighbours import call, find_calls, replace_calls
from braid.plan.logical.normal_form import is_operator
from braid.plan.logical.selects import (
    join_expressions,
    map_columns,
    map_conditions,
    map_join,
    output_expressions,
    replace_views,
    used,
)
from braid.plan.logical.types import type_of
from braid.plan.names import column_name, is_reserved, join_view, neighbour, raw, slicer_view


def separate_sides(query: Query) -> Query:
    """View `v` becomes views `v__left`, `v__right`, `v__join` and, over these, `v`."""
    joins = [
        view
        for view in query.views
        if isinstance(view.select, JoinSelect) and not is_operator(query, view.select, view.name)
    ]
    return replace_separated(query, {view.name: _separate(query, view) for view in joins})


def replace_separated(query: Query, separated: dict[str, tuple[View, ...]]) -> Query:
    """Put the parts of views in their place; the last one has the name of the view, the others new ones."""
    taken = {table.name for table in query.inputs} | {view.name for view in query.views}
    for name, (*parts, view) in separated.items():
        for part in parts:
            if part.name in taken:
                message = f"the view {name} needs the name {part.name} for a part of itself"
                hint = f"rename the input table or view {part.name}"
                raise PqlError(query.source, [Diagnostic("PQL215", message, view.span, hint)])
    return replace_views(query, separated)


def _separate(query: Query, view: View) -> tuple[View, ...]:
    select = view.select
    assert isinstance(select, JoinSelect)
    check_names(query, select.columns)
    relations = dict(zip(Side, select.relations, strict=True))
    in_output = used(output_expressions(select))
    needed = in_output | used(join_expressions(select.joins[0]))
    slicers: list[View] = []
    passed: list[OutputColumn] = []
    in_join: dict[tuple[str, str], exp.Column] = {}
    after: dict[tuple[str, str], exp.Column] = {}
    for side, relation in relations.items():
        name = slicer_view(view.name, side)
        columns = []
        for c in query.relation(relation.table).columns:
            place, carried = (relation.alias, c.name), raw(side, c.name)
            if place not in needed:
                continue
            columns.append(output(carried, column(c.name, relation.alias, c.type), c.type, view.span))
            in_join[place] = column(carried, name, c.type)
            if place in in_output:
                passed.append(output(carried, in_join[place], c.type, view.span))
                after[place] = column(carried, join_view(view.name), c.type)
        slicers.append(View(name, Select(relation, tuple(columns), view.span), view.span))
    passed += [
        output(name, call(which, in_join[column.table, column_name(column)]), type_, view.span)
        for name, which, column, type_ in _neighbours(select)
    ]

    def behind(expression: exp.Expr) -> exp.Expr:
        expression = replace_calls(
            expression,
            lambda which, c: column(
                neighbour(which, column_name(c)), join_view(view.name), type_of(c) or "string"
            ),
        )
        return substitute(expression, _placed(after))

    left, right = (Relation(slicer.name, slicer.name, view.span) for slicer in slicers)
    on = map_join(select.joins[0], lambda e: substitute(e, _placed(in_join)))
    join = View(
        join_view(view.name),
        JoinSelect(left, (replace(on, right=right),), tuple(passed), view.span),
        view.span,
    )
    post = Select(
        Relation(join.name, join.name, view.span),
        map_columns(select.columns, behind),
        select.span,
        map_conditions(select.where, behind),
    )
    return (*slicers, join, replace(view, select=post))


def _neighbours(select: JoinSelect) -> list[tuple[str, Neighbour, exp.Column, str]]:
    """The columns of neighbours that a join is asked for: name, which, of what, type."""
    found = {}
    for expression in output_expressions(select):
        for _, which, node in find_calls(expression):
            name = neighbour(which, column_name(node))
            found[name] = (name, which, node, type_of(node) or "string")
    return list(found.values())


def _placed(places: dict[tuple[str, str], exp.Column]) -> Replace:
    return lambda node: places.get((node.table, column_name(node)))


def check_names(query: Query, columns: Iterable[OutputColumn | Column]) -> None:
    """Refuse columns with names that the parts of a view give to columns of their own."""
    for item in columns:
        if is_reserved(item.name):
            message = f"the column name {item.name} is reserved in a view over a join or operator"
            hint = "choose a name without two underscores"
            raise PqlError(query.source, [Diagnostic("PQL215", message, item.span, hint)])
