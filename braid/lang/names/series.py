"""Time-series and ASOF joins: whose neighbour is whose, by which times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from braid.kernels.join.spec import MatchMode, SeriesMode
from braid.lang import sql_types as types
from braid.lang.dialect import span_of
from braid.lang.errors import Report
from braid.lang.names.event_times import TimeOf, declared_time
from braid.lang.names.resolve import Part, ResolvedJoin, ResolvedSelect
from braid.lang.names.scope import relations_of
from braid.lang.names.time_bounds import Sides
from braid.lang.query import Join, Series, TimeBounds
from braid.lang.source import Span
from braid.lang.syntax.join_clauses import EITHER_ORDER
from braid.lang.syntax.tree import JoinKind, RelationSyntax
from braid.lang.types.functions import NEIGHBOURS

_MODES = {JoinKind.TIMESERIES: SeriesMode.PAIRS, JoinKind.SPARSE: SeriesMode.SPARSE}
_DIRECTIONS: dict[type[exp.Expr], tuple[SeriesMode, bool]] = {
    exp.GTE: (SeriesMode.PREVIOUS, True),
    exp.GT: (SeriesMode.PREVIOUS, False),
    exp.LTE: (SeriesMode.NEXT, True),
    exp.LT: (SeriesMode.NEXT, False),
}
_FLIP = {SeriesMode.PREVIOUS: SeriesMode.NEXT, SeriesMode.NEXT: SeriesMode.PREVIOUS}
_CONDITION = "write MATCH_CONDITION (left.time >= right.time), or with >, <= or <"


def build_series(
    join: ResolvedJoin,
    before: Sequence[RelationSyntax],
    tables: dict[str, str],
    time_of: TimeOf,
    report: Report,
) -> tuple[Series, TimeBounds] | None:
    """Mode and times of a time-series or ASOF join, or None when it has been reported."""
    syntax = join.syntax
    if syntax.condition is not None:
        sides = Sides(frozenset(r.alias.text for r in before), syntax.relation.alias.text)
        found = _condition(join.condition, sides, syntax.span, report)
        if found is None:
            return None
        mode, inclusive, left, right = found
        if syntax.match is MatchMode.NEAREST:
            mode, inclusive = SeriesMode.NEAREST, True
    else:
        mode, inclusive = _MODES.get(syntax.kind, SeriesMode.NEAREST), True
        otherwise = "add MATCH_CONDITION (left.time >= right.time)" if syntax.kind is JoinKind.ASOF else None
        times = [
            declared_time(relation, tables, time_of, syntax.kind.value, otherwise, report)
            for relation in (before[0], syntax.relation)
        ]
        if times[0] is None or times[1] is None:
            return None
        left, right = times[0], times[1]
    return Series(mode, syntax.within, inclusive), TimeBounds(left, right, 0, 0, syntax.span)


def _condition(
    parts: Sequence[Part], sides: Sides, span: Span, report: Report
) -> tuple[SeriesMode, bool, exp.Expr, exp.Expr] | None:
    if not parts:
        return None
    place = parts[0].span.to(parts[-1].span)
    tree = parts[0].expression
    direction = _DIRECTIONS.get(type(tree))
    if len(parts) > 1 or direction is None:
        report.add("PQL412", place, "MATCH_CONDITION is one comparison of two times", _CONDITION)
        return None
    mode, inclusive = direction
    left, right = tree.this.unnest(), tree.expression.unnest()
    if sides.split(left) == (False, True):
        left, right = right, left
        mode = mode if tree.meta.get(EITHER_ORDER) else _FLIP[mode]
    if (
        sides.split(left) != (True, False)
        or sides.split(right) != (False, True)
        or len(relations_of(left)) != 1
    ):
        text = "MATCH_CONDITION compares a time of the left side with a time of the joined table"
        report.add("PQL412", place, text, _CONDITION)
        return None
    for side in (left, right):
        name = types.from_sqlglot(side.type) if side.type is not None else None
        if name != "timestamp":
            where = span_of(side) or place
            text = f"event times are timestamps, but this is a {name or 'value of unknown type'}"
            report.add("PQL406", where, text, f"write CAST({side.sql()} AS TIMESTAMP)")
            return None
    return mode, inclusive, left.copy(), right.copy()


def refuse_residual(part: Part, kind: JoinKind, report: Report) -> None:
    """Report a condition over both sides: it would change who is whose neighbour."""
    hint = "filter the pairs with WHERE, or compute what is equal in a view and compare that with ="
    tree = part.expression
    if any(node.type and types.from_sqlglot(node.type) == "timestamp" for node in tree.find_all(exp.Column)):
        hint = "bound the distance in time with WITHIN INTERVAL '...' after ON, or filter with WHERE"
    text = f"the ON clause of {kind.value} takes equalities of both sides and conditions on one side"
    report.add("PQL410", part.span, text, hint)


def check_neighbours(select: ResolvedSelect, joins: Iterable[Join], report: Report) -> bool:
    """Report INTERPOLATE, PREVIOUS and NEXT where there are no neighbours; whether all is well."""
    before = report.error_count
    asof = {join.right.alias: join.series for join in joins if join.series and not join.series.mode.symmetric}
    for item in select.items:
        for call in _calls(item.expression):
            place, name = span_of(call) or item.span, call.name.upper()
            argument = call.expressions[0]
            series = asof.get(argument.table) if isinstance(argument, exp.Column) else None
            if series is None:
                text = f"{name} takes a column of a table that is joined with ASOF JOIN in the same SELECT"
                hint = (
                    "compute other expressions in a view, and join that view" if asof else "write ASOF JOIN"
                )
                report.add("PQL413", place, text, hint)
            elif not series.inclusive:
                text = f"{name} needs a match condition that includes equal times"
                report.add("PQL413", place, text, "write >= instead of >, or <= instead of <")
    clauses = [*select.where, *(part for join in select.joins for part in (*join.on, *join.condition))]
    for part in clauses:
        refuse_neighbours(part.expression, part.span, report)
    return report.error_count == before


def refuse_neighbours(tree: exp.Expr, fallback: Span, report: Report) -> None:
    """Report INTERPOLATE, PREVIOUS and NEXT outside the list of columns."""
    for call in _calls(tree):
        text = f"{call.name.upper()} can only be used in the list of columns"
        report.add("PQL413", span_of(call) or fallback, text, "use it in a view, and read that view here")


def _calls(tree: exp.Expr) -> list[exp.Anonymous]:
    return [call for call in tree.find_all(exp.Anonymous) if call.name.lower() in NEIGHBOURS]
