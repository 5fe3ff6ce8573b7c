"""Turn several joins in one FROM into a chain of views with one join each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sqlglot import exp

from braid.kernels.spec import JoinType
from braid.lang.query import Column, Condition, Join, JoinSelect, Query, Relation, View
from braid.plan.expressions import column, output, substitute
from braid.plan.names import carried, chain_view, column_name
from braid.plan.selects import (
    join_expressions,
    map_columns,
    map_conditions,
    map_join,
    output_expressions,
    replace_views,
    used,
)


def split_joins(query: Query) -> Query:
    """`a JOIN b JOIN c` becomes a view of `a JOIN b`, and that view `JOIN c`.

    A view of the chain carries the columns that are needed later, and every event time, so that watermarks
    of all streams travel on. Conjuncts of WHERE are applied as early as the joins after them allow.
    """
    chains = {
        view.name: _split(query, view)
        for view in query.views
        if isinstance(view.select, JoinSelect) and len(view.select.joins) > 1
    }
    return replace_views(query, chains)


def _split(query: Query, view: View) -> tuple[View, ...]:
    select = view.select
    assert isinstance(select, JoinSelect)
    types: dict[tuple[str, str], Column] = {
        (relation.alias, c.name): c
        for relation in select.relations
        for c in query.relation(relation.table).columns
    }
    moved: dict[tuple[str, str], exp.Column] = {}

    def now(expression: exp.Expr) -> exp.Expr:
        return substitute(expression, lambda node: moved.get((node.table, column_name(node))))

    views: list[View] = []
    source, where = select.source, select.where
    for position, join in enumerate(select.joins[:-1], start=1):
        here = {relation.alias for relation in select.relations[: position + 1]}
        later = select.joins[position:]
        early = [part for part in where if _may_move(part, here, later)]
        where = tuple(part for part in where if part not in early)
        rest = replace(select, where=where)
        needed = used(output_expressions(rest)) | used(e for j in later for e in join_expressions(j))
        needed |= used(e for j in select.joins[:position] for e in (j.bounds.left, j.bounds.right))
        carry = [place for place in types if place in needed and place[0] in here]
        name = chain_view(view.name, position)
        columns = tuple(
            output(
                carried(*place),
                now(column(place[1], place[0], types[place].type)),
                types[place].type,
                view.span,
            )
            for place in carry
        )
        step = JoinSelect(source, (map_join(join, now),), columns, select.span, map_conditions(early, now))
        views.append(View(name, step, view.span))
        moved |= {place: column(carried(*place), name, types[place].type) for place in carry}
        source = Relation(name, name, view.span)
    last = JoinSelect(
        source,
        (map_join(select.joins[-1], now),),
        map_columns(select.columns, now),
        select.span,
        map_conditions(where, now),
    )
    return (*views, replace(view, select=last))


def _may_move(part: Condition, here: set[str], later: Iterable[Join]) -> bool:
    """Whether filtering before the later joins is the same: they pad no row of their left side."""
    return (
        bool(part.relations)
        and part.relations <= here
        and all(join.type in (JoinType.INNER, JoinType.LEFT) for join in later)
    )
