"""Tools over the statements of a typed query: map, substitute, look up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from sqlglot import exp

from braid.core.side import Side
from braid.kernels.operator import INPUT
from braid.lang.query import (
    AnySelect,
    Condition,
    Join,
    JoinSelect,
    Lookup,
    OperatorSelect,
    OutputColumn,
    Query,
    Select,
    Stateful,
    Table,
    View,
)
from braid.plan.logical.expressions import (
    Replace,
    column,
    columns_of,
    condition,
    conjuncts,
    output,
    substitute,
)
from braid.plan.names import TIME, column_name, raw

Map = Callable[[exp.Expr], exp.Expr]
Statement = View | Table
Select_ = TypeVar("Select_", bound=Stateful)


def map_columns(columns: Iterable[OutputColumn], change: Map) -> tuple[OutputColumn, ...]:
    """The same columns with changed expressions."""
    return tuple(output(c.name, change(c.expression), c.type, c.span) for c in columns)


def map_conditions(conditions: Iterable[Condition], change: Map) -> tuple[Condition, ...]:
    """The same conjuncts with changed expressions; one that has become a conjunction is split again."""
    return tuple(condition(part, c.span) for c in conditions for part in conjuncts(change(c.expression)))


def map_join(join: Join, change: Map) -> Join:
    """The same join with every expression of its ON clause changed."""
    return replace(
        join,
        keys=tuple(replace(k, left=change(k.left), right=change(k.right)) for k in join.keys),
        bounds=replace(join.bounds, left=change(join.bounds.left), right=change(join.bounds.right)),
        residual=map_conditions(join.residual, change),
        left_only=map_conditions(join.left_only, change),
        right_only=map_conditions(join.right_only, change),
    )


def map_lookup(lookup: Lookup, change: Map) -> Lookup:
    """The same lookup with changed expressions for its keys."""
    keys = tuple(replace(key, expression=change(key.expression)) for key in lookup.keys)
    return replace(lookup, keys=keys)


def map_select(select: AnySelect, change: Map) -> AnySelect:
    """The same SELECT with every expression changed."""
    columns = map_columns(select.columns, change)
    where = map_conditions(select.where, change)
    if isinstance(select, OperatorSelect):
        keys, time = tuple(map(change, select.keys)), change(select.time)
        return replace(select, columns=columns, where=where, keys=keys, time=time)
    lookups = tuple(map_lookup(lookup, change) for lookup in select.lookups)
    if isinstance(select, Select):
        return replace(select, columns=columns, where=where, lookups=lookups)
    joins = tuple(map_join(join, change) for join in select.joins)
    return replace(select, columns=columns, where=where, joins=joins, lookups=lookups)


def join_expressions(join: Join) -> Iterator[exp.Expr]:
    """Every expression of an ON clause."""
    for key in join.keys:
        yield key.left
        yield key.right
    yield join.bounds.left
    yield join.bounds.right
    for part in (*join.residual, *join.left_only, *join.right_only):
        yield part.expression


def output_expressions(select: AnySelect) -> Iterator[exp.Expr]:
    """Every expression of the SELECT list, of WHERE and of the keys of lookups."""
    for item in select.columns:
        yield item.expression
    for part in select.where:
        yield part.expression
    for lookup in select.lookups:
        for key in lookup.keys:
            yield key.expression


def used(expressions: Iterable[exp.Expr]) -> set[tuple[str, str]]:
    """The columns that expressions refer to, as pairs of relation and name."""
    return {(node.table, column_name(node)) for e in expressions for node in columns_of(e)}


def definitions(alias: str, columns: Iterable[OutputColumn]) -> Replace:
    """Puts the expressions behind a view's columns in the place of references to them."""
    by_name = {c.name: c.expression for c in columns}
    return lambda node: by_name.get(column_name(node)) if node.table == alias else None


def inline(expression: exp.Expr, alias: str, columns: Iterable[OutputColumn]) -> exp.Expr:
    """The expression in terms of what the view that `alias` stands for reads."""
    return substitute(expression, definitions(alias, columns))


def readers(query: Query) -> dict[str, list[Statement]]:
    """For every input table and view, the statements that read it; a self join counts once per side."""
    found: dict[str, list[Statement]] = {}
    for statement in query.statements():
        for relation in statement.select.relations:
            found.setdefault(relation.table, []).append(statement)
    return found


def inputs_of(select: Stateful) -> tuple[str, ...]:
    """The names of the inputs of a join or operator, in order of its relations."""
    return tuple(Side) if isinstance(select, JoinSelect) else (INPUT,)


def feeding(query: Query) -> set[str]:
    """The statements that joins and operators read: each is a slicer, or will be one."""
    stateful = (view.select for view in query.views if isinstance(view.select, Stateful))
    return {relation.table for select in stateful for relation in select.relations}


def replace_views(query: Query, changed: dict[str, tuple[View, ...]]) -> Query:
    """Put other views in the place of some, keeping the order of dependency."""
    views = [new for view in query.views for new in changed.get(view.name, (view,))]
    return replace(query, views=tuple(views))


@dataclass(frozen=True)
class Parts:
    """A join view taken apart: what its slicers compute, the join alone, and what is left for after it."""

    left: View
    right: View
    join: View
    post: View

    @property
    def select(self) -> JoinSelect:
        """The join's SELECT."""
        assert isinstance(self.join.select, JoinSelect)
        return self.join.select

    @property
    def on(self) -> Join:
        """The one join in it."""
        return self.select.joins[0]

    def slicer(self, side: Side) -> View:
        """The view of one slicer."""
        return self.left if side is Side.LEFT else self.right

    def side_of(self, relation: str) -> Side:
        """The side that an alias of the join's FROM stands for."""
        return Side.LEFT if relation == self.select.source.alias else Side.RIGHT

    def sides(self, expression: exp.Expr) -> set[Side]:
        """The sides that an expression of the ON clause, or of the statement after the join, refers to."""
        origin = {c.name: c.expression for c in self.select.columns}
        found = set()
        for node in columns_of(expression):
            if node.table == self.join.name:
                found |= {self.side_of(inner.table) for inner in columns_of(origin[column_name(node)])}
            else:
                found.add(self.side_of(node.table))
        return found

    def into_slicer(self, expression: exp.Expr, side: Side) -> exp.Expr:
        """The expression in terms of what the slicer of `side` reads."""
        expression = inline(expression, self.join.name, self.select.columns)
        view = self.slicer(side)
        return inline(expression, view.name, view.select.columns)

    def with_column(self, side: Side, column: OutputColumn) -> Parts:
        """Let a slicer compute one more column; one of the same name is left alone."""
        view = self.slicer(side)
        if any(c.name == column.name for c in view.select.columns):
            return self
        return self.with_slicer(side, replace(view.select, columns=(*view.select.columns, column)))

    def with_slicer(self, side: Side, select: AnySelect) -> Parts:
        """Put another SELECT into a slicer."""
        view = replace(self.slicer(side), select=select)
        return replace(self, left=view) if side is Side.LEFT else replace(self, right=view)

    def with_on(self, join: Join) -> Parts:
        """Put another ON clause into the join."""
        return self.with_join(replace(self.select, joins=(join,)))

    def with_join(self, select: JoinSelect) -> Parts:
        """Put another SELECT into the join."""
        return replace(self, join=replace(self.join, select=select))

    def with_post(self, select: AnySelect) -> Parts:
        """Put another SELECT after the join."""
        return replace(self, post=replace(self.post, select=select))


def each_join(query: Query, change: Callable[[Parts], Parts]) -> Query:
    """Apply a change to every join view that has been taken apart."""
    views = {view.name: view for view in query.views}
    reading = readers(query)
    for join in query.views:
        if not isinstance(join.select, JoinSelect):
            continue
        left, right = (views.get(relation.table) for relation in join.select.relations)
        post = reading[join.name][0]
        if left is None or right is None or not isinstance(post, View):
            continue
        parts = change(Parts(left, right, views[join.name], views[post.name]))
        views |= {view.name: view for view in (parts.left, parts.right, parts.join, parts.post)}
    return replace(query, views=tuple(views[view.name] for view in query.views))


def narrow(select: Select_, needed: set[str]) -> Select_:
    """The join or operator with only the needed columns, but at least one."""
    kept = tuple(c for c in select.columns if c.name in needed)
    return replace(select, columns=kept or (_some_column(select),))


def _some_column(select: Stateful) -> OutputColumn:
    """Rows without columns cannot be counted; the event time, of a join the left one, is always there."""
    time = column(TIME, select.source.alias, "timestamp")
    name = raw(Side.LEFT, "time") if isinstance(select, JoinSelect) else TIME
    return output(name, time, "timestamp", select.span)
