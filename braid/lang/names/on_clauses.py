"""ON clauses: what is a key, what bounds time, what concerns one side, and what is left."""

from __future__ import annotations

from sqlglot import exp

from braid.kernels.join.spec import MatchMode
from braid.lang import sql_types as types
from braid.lang.dialect import span_of
from braid.lang.errors import Report
from braid.lang.names.event_times import TimeOf
from braid.lang.names.lookups import build_lookup, refuse_key
from braid.lang.names.resolve import Part, ResolvedJoin, ResolvedSelect
from braid.lang.names.scope import relations_of
from braid.lang.names.series import build_series, check_neighbours, refuse_residual
from braid.lang.names.time_bounds import Sides, find_bounds
from braid.lang.query import Condition, Equality, Join, Lookup, Relation, Series, TimeBounds
from braid.lang.syntax.tree import JoinKind, RelationSyntax

_COMPARISONS = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)


def build_joins(
    select: ResolvedSelect, time_of: TimeOf, report: Report
) -> tuple[tuple[Join, ...], tuple[Lookup, ...]] | None:
    """All joins and lookups of a SELECT, or None when one of them has been reported."""
    joins: list[Join] = []
    lookups: list[Lookup] = []
    before = select.syntax.relations
    for number, join in enumerate(select.joins, 1):
        if join.syntax.relation.lookup:
            lookup = build_lookup(join, before[:number], len(joins), report)
            lookups += [] if lookup is None else [lookup]
            continue
        found = _join(select, join, before[:number], time_of, report)
        if found is not None:
            joins.append(found)
    sound = check_neighbours(select, joins, report)
    complete = len(joins) + len(lookups) == len(select.joins)
    return (tuple(joins), tuple(lookups)) if sound and complete else None


def relation(syntax: RelationSyntax, tables: dict[str, str]) -> Relation:
    """A relation with the declared name of its table."""
    return Relation(syntax.alias.text, tables[syntax.alias.text], syntax.span)


def condition(part: Part) -> Condition:
    """A conjunct with the relations that it refers to."""
    return Condition(part.expression, relations_of(part.expression), part.span)


def _join(
    select: ResolvedSelect,
    join: ResolvedJoin,
    before: tuple[RelationSyntax, ...],
    time_of: TimeOf,
    report: Report,
) -> Join | None:
    sides = Sides(frozenset(r.alias.text for r in before), join.syntax.relation.alias.text)
    found = _times(select, join, before, sides, time_of, report)
    if found is None:
        return None
    bounds, implied, series = found
    keys: list[Equality] = []
    residual: list[Condition] = []
    left_only: list[Condition] = []
    right_only: list[Condition] = []
    for number, part in enumerate(join.on):
        if number in implied:
            continue
        if not _comparable(part, sides, report):
            return None
        key = _key(part, sides)
        left, right = sides.split(part.expression)
        if key is not None:
            keys.append(key)
        elif left and right and series is not None:
            refuse_residual(part, join.syntax.kind, report)
            return None
        elif left and right:
            residual.append(condition(part))
        else:
            (right_only if right else left_only).append(condition(part))
    return Join(
        relation(join.syntax.relation, select.tables),
        join.syntax.type,
        MatchMode.ALL if series is not None else join.syntax.match,
        tuple(keys),
        bounds,
        join.syntax.span,
        tuple(residual),
        tuple(left_only),
        tuple(right_only),
        series,
        join.syntax.consume,
        join.syntax.pad_after,
    )


def _times(
    select: ResolvedSelect,
    join: ResolvedJoin,
    before: tuple[RelationSyntax, ...],
    sides: Sides,
    time_of: TimeOf,
    report: Report,
) -> tuple[TimeBounds, frozenset[int], Series | None] | None:
    """The times that a join compares, the conjuncts that they stand for, and how neighbours are paired."""
    syntax = join.syntax
    if syntax.kind is JoinKind.WINDOW:
        example = _example(before, syntax.relation, select.tables, time_of)
        window = find_bounds(join.on, sides, syntax.span, example, report)
        return None if window is None else (*window, None)
    neighbours = build_series(join, before, select.tables, time_of, report)
    return None if neighbours is None else (neighbours[1], frozenset(), neighbours[0])


def _key(part: Part, sides: Sides) -> Equality | None:
    """`left = right` with one side of the join on either side of the equality."""
    tree = part.expression
    if not isinstance(tree, exp.EQ):
        return None
    first, second = tree.this.unnest(), tree.expression.unnest()
    if sides.split(first) == (False, True):
        first, second = second, first
    if sides.split(first) != (True, False) or sides.split(second) != (False, True):
        return None
    kinds = [types.from_sqlglot(side.type) if side.type is not None else None for side in (first, second)]
    common = types.common(*kinds)
    return None if common is None else Equality(first.copy(), second.copy(), common, part.span)


def _comparable(part: Part, sides: Sides, report: Report) -> bool:
    """Whether the join can make the comparisons of a condition that are between its two sides."""
    for tree in part.expression.find_all(*_COMPARISONS):
        split = [sides.split(side) for side in (tree.this, tree.expression)]
        if sorted(split) != [(False, True), (True, False)]:
            continue
        for side in (tree.this.unnest(), tree.expression.unnest()):
            type_ = types.from_sqlglot(side.type) if side.type is not None else None
            if type_ is not None and not types.comparable(type_):
                refuse_key(type_, span_of(side) or part.span, report)
                return False
    return True


def _example(
    before: tuple[RelationSyntax, ...], right: RelationSyntax, tables: dict[str, str], time_of: TimeOf
) -> tuple[str, str]:
    """How to spell the two times in a hint, with the declared event-time columns where there are any."""
    last = next((syntax for syntax in reversed(before) if not syntax.lookup), before[0])
    names = []
    for syntax in (last, right):
        column = time_of(tables[syntax.alias.text])
        names.append(f"{syntax.alias.text}.{column or 'eventtime'}")
    return names[0], names[1]
