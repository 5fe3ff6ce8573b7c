"""Interpolate between neighbours: what INTERPOLATE stands for, in terms of PREVIOUS and NEXT."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from sqlglot import exp

from braid.kernels.join.spec import Neighbour
from braid.lang.query import Join, JoinSelect, Query
from braid.plan.logical.expressions import cast, data_type, substitute
from braid.plan.logical.neighbours import INTERPOLATE, call
from braid.plan.logical.selects import map_columns
from braid.plan.logical.types import same_type


def expand_interpolate(query: Query) -> Query:
    """`INTERPOLATE(s.x)` is on the line through both neighbours, at the time of the left row.

    A neighbour at exactly that time gives the value itself; without one of the two there is none.
    """
    views = []
    for view in query.views:
        select = view.select
        if isinstance(select, JoinSelect):
            joins = {join.right.alias: join for join in select.joins if join.series is not None}
            columns = map_columns(select.columns, partial(_expand, joins))
            view = replace(view, select=replace(select, columns=columns))
        views.append(view)
    return replace(query, views=tuple(views))


def _expand(joins: dict[str, Join], expression: exp.Expr) -> exp.Expr:
    root = expression.copy()
    for node in list(root.find_all(exp.Anonymous)):
        if node.name.upper() != INTERPOLATE:
            continue
        [value] = node.expressions
        new = _interpolated(value, joins[value.table])
        if node is root:
            return new
        node.replace(new)
    return root


def _interpolated(value: exp.Expr, join: Join) -> exp.Expr:
    at = join.bounds.left
    values, times = {}, {}
    for which in Neighbour:
        found = call(which, value)
        values[which] = found if same_type(found, "double") else cast(found, "double")
        times[which] = substitute(join.bounds.right, partial(call, which))
    before, after = values[Neighbour.PREVIOUS], values[Neighbour.NEXT]
    micros = [_micros(time) for time in (at, times[Neighbour.PREVIOUS], times[Neighbour.NEXT])]
    share = exp.Div(
        this=exp.Paren(this=exp.Sub(this=micros[0], expression=micros[1])),
        expression=exp.Paren(this=exp.Sub(this=micros[2], expression=micros[1].copy())),
    )
    rise = exp.Paren(this=exp.Sub(this=after.copy(), expression=before.copy()))
    line = exp.Add(this=before.copy(), expression=exp.Mul(this=rise, expression=exp.Paren(this=share)))
    exact = [
        exp.If(this=exp.EQ(this=times[which], expression=at.copy()), true=values[which].copy())
        for which in Neighbour
    ]
    result = exp.Case(ifs=exact, default=line)
    result.type = data_type("double")
    return result


def _micros(time: exp.Expr) -> exp.Expr:
    node = exp.Anonymous(this="UNIX_MICROS", expressions=[time.copy()])
    node.type = data_type("bigint")
    return node
