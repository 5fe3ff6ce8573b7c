"""Turn several joins and lookups in one FROM into a chain of views with one join each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby

from sqlglot import exp

from braid.core.side import Side
from braid.lang.query import (
    Condition,
    Join,
    JoinSelect,
    Lookup,
    OutputColumn,
    Query,
    Relation,
    Select,
    View,
)
from braid.plan.logical.expressions import column, columns_of, output, substitute
from braid.plan.logical.neighbours import call, carried_neighbour, find_calls, replace_calls
from braid.plan.logical.rules.push_where import may_filter
from braid.plan.logical.selects import (
    join_expressions,
    map_columns,
    map_conditions,
    map_join,
    map_lookup,
    output_expressions,
    replace_views,
)
from braid.plan.logical.types import type_of
from braid.plan.names import carried, chain_view, column_name

Step = Join | tuple[Lookup, ...]
"""A link of the chain: a join, or lookups that follow each other."""


def split_joins(query: Query) -> Query:
    """`a JOIN b JOIN c` becomes a view of `a JOIN b`, and that view `JOIN c`.

    A view of the chain carries the columns that are needed later, and every event time, so that watermarks
    of all streams travel on. Conjuncts of WHERE are applied as early as the joins after them allow. Lookups
    become views of their own, which are evaluated where the rows pass by.
    """
    chains = {
        view.name: tuple(_Chain(query, view, view.select).split())
        for view in query.views
        if isinstance(view.select, JoinSelect) and (len(view.select.joins) > 1 or view.select.lookups)
    }
    return replace_views(query, chains)


class _Chain:
    """One FROM clause while it is being split: what has become of each column so far."""

    def __init__(self, query: Query, view: View, select: JoinSelect) -> None:
        self._view, self._select = view, select
        self._order = {
            (relation.alias, c.name): number
            for number, (relation, c) in enumerate(
                (relation, c) for relation in select.relations for c in query.relation(relation.table).columns
            )
        }
        self._moved: dict[tuple[str, str], exp.Column] = {}
        self._neighbours: dict[str, exp.Column] = {}

    def split(self) -> Iterator[View]:
        """The views of the chain; the last one has the name and the columns of the whole."""
        view, select = self._view, self._select
        steps = list(_steps(select))
        source, where = select.source, select.where
        here = {source.alias}
        for position, step in enumerate(steps, start=1):
            here |= _aliases(step)
            later = steps[position:]
            if not later:
                columns = map_columns(select.columns, self._now)
                yield replace(view, select=self._link(source, step, columns, where))
                return
            early = [part for part in where if _may_move(part, here, later)]
            where = tuple(part for part in where if part not in early)
            rest = [
                *output_expressions(replace(select, where=where, lookups=())),
                *_needs(later),
                *self._times(),
            ]
            name = chain_view(view.name, position)
            columns, moved, neighbours = self._carry(rest, here, name)
            yield View(name, self._link(source, step, columns, tuple(early)), view.span)
            self._moved |= moved
            self._neighbours |= neighbours
            source = Relation(name, name, view.span)

    def _times(self) -> list[exp.Expr]:
        """Every event time, whether anything else needs it or not."""
        return [e for join in self._select.joins for e in (join.bounds.left, join.bounds.right)]

    def _link(
        self, source: Relation, step: Step, columns: tuple[OutputColumn, ...], where: tuple[Condition, ...]
    ) -> Select | JoinSelect:
        conditions = map_conditions(where, self._now)
        if isinstance(step, Join):
            return JoinSelect(source, (map_join(step, self._now),), columns, self._select.span, conditions)
        lookups = tuple(replace(map_lookup(lookup, self._now), after=0) for lookup in step)
        return Select(source, columns, self._select.span, conditions, lookups)

    def _now(self, expression: exp.Expr) -> exp.Expr:
        """The expression in terms of the last view of the chain."""
        expression = replace_calls(
            expression, lambda which, c: self._neighbours.get(carried_neighbour(which, c))
        )
        return substitute(expression, lambda node: self._moved.get((node.table, column_name(node))))

    def _carry(
        self, expressions: Iterable[exp.Expr], here: set[str], name: str
    ) -> tuple[tuple[OutputColumn, ...], dict[tuple[str, str], exp.Column], dict[str, exp.Column]]:
        """Columns of the next view, and what stands for columns and neighbours after it."""
        plain: dict[tuple[str, str], exp.Column] = {}
        calls: dict[str, exp.Expr] = {}
        for expression in expressions:
            rest = expression.copy()
            for node, which, argument in find_calls(rest):
                if argument.table in here:
                    calls[carried_neighbour(which, argument)] = call(which, argument)
                    if node is rest:
                        rest = exp.null()
                    else:
                        node.replace(exp.null())
            for node in columns_of(rest):
                if node.table in here:
                    plain[node.table, column_name(node)] = node
        last = len(self._order)
        columns, moved, neighbours = [], {}, {}
        for place in sorted(plain, key=lambda place: (self._order.get(place, last), place)):
            type_ = type_of(plain[place]) or "string"
            columns.append(output(carried(*place), self._now(plain[place]), type_, self._view.span))
            moved[place] = column(carried(*place), name, type_)
        for own, found in sorted(calls.items()):
            type_ = type_of(found) or "string"
            columns.append(output(own, self._now(found), type_, self._view.span))
            neighbours[own] = column(own, name, type_)
        return tuple(columns), moved, neighbours


def _steps(select: JoinSelect) -> Iterator[Step]:
    """Joins and lookups in the order of FROM."""
    lookups = {
        after: tuple(found) for after, found in groupby(select.lookups, key=lambda lookup: lookup.after)
    }
    if 0 in lookups:
        yield lookups[0]
    for number, join in enumerate(select.joins, start=1):
        yield join
        if number in lookups:
            yield lookups[number]


def _aliases(step: Step) -> set[str]:
    return {step.right.alias} if isinstance(step, Join) else {lookup.alias for lookup in step}


def _needs(steps: Iterable[Step]) -> Iterator[exp.Expr]:
    for step in steps:
        if isinstance(step, Join):
            yield from join_expressions(step)
        else:
            yield from (key.expression for lookup in step for key in lookup.keys)


def _may_move(part: Condition, here: set[str], later: Iterable[Step]) -> bool:
    """Whether filtering before the later joins is the same as after them."""
    return (
        bool(part.relations)
        and part.relations <= here
        and all(not isinstance(step, Join) or may_filter(Side.LEFT, step) for step in later)
    )
