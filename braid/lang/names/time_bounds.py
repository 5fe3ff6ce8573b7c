"""Time bounds of a join: `left + lower <= right <= left + upper`, found in the conjuncts of ON.

As in Hazelcast's design, each comparison between times of both sides is brought into a linear form; the
tightest constant per direction counts; a comparison that has no such form is not a bound but still applies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from braid.lang import sql_types as types
from braid.lang.dialect import span_of
from braid.lang.errors import Report
from braid.lang.names.resolve import Part
from braid.lang.names.scope import relations_of
from braid.lang.query import TimeBounds
from braid.lang.source import Span
from braid.lang.types.intervals import in_words, interval_length

_FLIP = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
_COMPARE: dict[type[exp.Expr], str] = {exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.EQ: "="}
_MAX_MICROS = 2**61
_TIMESTAMPS = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ)


@dataclass(frozen=True)
class _Linear:
    """A sum of times and constants: `terms` with their signs, plus `micros`.

    `months` says that an interval in it has no constant length.
    """

    terms: tuple[tuple[int, exp.Expr], ...] = ()
    micros: int = 0
    months: bool = False

    def plus(self, other: _Linear, sign: int = 1) -> _Linear:
        return _Linear(
            (*self.terms, *((sign * s, term) for s, term in other.terms)),
            self.micros + sign * other.micros,
            self.months or other.months,
        )


@dataclass(frozen=True)
class _Bound:
    """One comparison `right - left OP micros` between a time of either side."""

    part: int
    left: exp.Expr
    right: exp.Expr
    lower: int | None
    upper: int | None

    @property
    def pair(self) -> tuple[str, str]:
        return self.left.sql(), self.right.sql()


@dataclass(frozen=True)
class _Rejected:
    """A comparison of times of both sides that cannot be a bound, and why."""

    code: str
    span: Span
    message: str
    hint: str


@dataclass(frozen=True)
class Sides:
    """The relations on either side of a join."""

    left: frozenset[str]
    right: str

    def split(self, tree: exp.Expr) -> tuple[bool, bool]:
        """Whether an expression refers to the left side, and to the right side."""
        found = relations_of(tree)
        return bool(found & self.left), self.right in found


def find_bounds(
    parts: Sequence[Part], sides: Sides, span: Span, example: tuple[str, str], report: Report
) -> tuple[TimeBounds, frozenset[int]] | None:
    """The time bounds of a join and the conjuncts that they stand for; reports why there are none.

    `example` are the times of the left and the right side, as messages should spell them.
    """
    bounds: list[_Bound] = []
    rejected: list[_Rejected] = []
    for number, part in enumerate(parts):
        for operator, left, right in _comparisons(part.expression):
            found = _bound(number, operator, left, right, sides)
            if isinstance(found, _Bound):
                bounds.append(found)
            elif found is not None:
                rejected.append(found)
    pair = _best_pair(bounds)
    chosen = [bound for bound in bounds if bound.pair == pair]
    lowers = [bound.lower for bound in chosen if bound.lower is not None]
    uppers = [bound.upper for bound in chosen if bound.upper is not None]
    if not (lowers and uppers):
        _report_missing(chosen, rejected, parts, sides, span, example, report)
        return None
    lower, upper = max(lowers), min(uppers)
    place = span_of_all([parts[bound.part].span for bound in chosen])
    if lower > upper:
        times = (chosen[0].left.sql(), chosen[0].right.sql())
        report.add(
            "PQL405",
            place,
            f"the time window is empty: {times[1]} would be from {in_words(lower)} to {in_words(upper)} "
            f"after {times[0]}",
            "swap the bounds, or widen the window",
        )
        return None
    result = TimeBounds(chosen[0].left.copy(), chosen[0].right.copy(), lower, upper, place)
    return result, _implied(parts, chosen)


def span_of_all(spans: Sequence[Span]) -> Span:
    """From the first to the last of some spans."""
    return Span(min(s.start for s in spans), max(s.end for s in spans))


def _implied(parts: Sequence[Part], chosen: Sequence[_Bound]) -> frozenset[int]:
    """Conjuncts of which nothing is left once the bounds are applied (a BETWEEN may have only one half)."""
    halves = [bound.part for bound in chosen]
    return frozenset(n for n in halves if halves.count(n) == len(_comparisons(parts[n].expression)))


def _best_pair(bounds: Sequence[_Bound]) -> tuple[str, str] | None:
    """The pair of times bounded in both directions, by more than one equality if possible, else the first."""
    pairs = list(dict.fromkeys(bound.pair for bound in bounds))

    def rank(pair: tuple[str, str]) -> tuple[bool, bool]:
        own = [bound for bound in bounds if bound.pair == pair]
        both = any(b.lower is not None for b in own) and any(b.upper is not None for b in own)
        window = any(bound.lower != bound.upper for bound in own)
        return both, window

    return max(pairs, key=rank, default=None)


def _comparisons(tree: exp.Expr) -> list[tuple[str, exp.Expr, exp.Expr]]:
    """A conjunct as comparisons `left OP right`; none if it is something else."""
    if isinstance(tree, exp.Between) and not tree.args.get("symmetric"):
        return [(">=", tree.this, tree.args["low"]), ("<=", tree.this, tree.args["high"])]
    operator = _COMPARE.get(type(tree))
    return [(operator, tree.this, tree.expression)] if operator is not None else []


def _bound(
    number: int, operator: str, left: exp.Expr, right: exp.Expr, sides: Sides
) -> _Bound | _Rejected | None:
    """`left OP right` as a bound; None when it does not compare times of both sides."""
    form = _linear(left).plus(_linear(right), -1)
    tree = exp.Tuple(expressions=[left.copy(), right.copy()])
    if sides.split(tree) != (True, True):
        return None
    times = [(sign, term) for sign, term in form.terms if _is_time(term)]
    ours = [(sign, term) for sign, term in times if sides.split(term) == (True, False)]
    theirs = [(sign, term) for sign, term in times if sides.split(term) == (False, True)]
    if not ours or not theirs:
        return None
    place = span_of_all([s for s in (span_of(left), span_of(right)) if s is not None] or [Span(0, 1)])
    other = next((term for _, term in times if not term.is_type(*_TIMESTAMPS)), None)
    if other is not None:
        return _Rejected(
            "PQL406",
            span_of(other) or place,
            f"event times are timestamps, but this is a {_type_name(other)}",
            f"write CAST({other.sql()} AS TIMESTAMP)",
        )
    plain = len(ours) == len(theirs) == 1 and ours[0][0] == -theirs[0][0]
    if not plain or len(form.terms) != 2 or len(relations_of(ours[0][1])) != 1:
        return _Rejected(
            "PQL403",
            place,
            "this time bound is not constant, so a row would have to be kept forever",
            "bound the difference of the two times by an INTERVAL; this condition may be kept besides",
        )
    if form.months:
        return _Rejected(
            "PQL404",
            place,
            "months and years have no constant length",
            "write the bound in days, for example INTERVAL '30 days'",
        )
    # sign * (right - left) + micros OP 0
    sign = theirs[0][0]
    limit = max(-_MAX_MICROS, min(_MAX_MICROS, -sign * form.micros))
    operator = operator if sign > 0 else _FLIP[operator]
    lower = {">=": limit, ">": limit + 1, "=": limit}.get(operator)
    upper = {"<=": limit, "<": limit - 1, "=": limit}.get(operator)
    return _Bound(number, ours[0][1], theirs[0][1], lower, upper)


def _type_name(tree: exp.Expr) -> str | None:
    return types.from_sqlglot(tree.type) if tree.type is not None else None


def _is_time(tree: exp.Expr) -> bool:
    name = _type_name(tree)
    return name is not None and types.family(name) is types.Family.TIME


def _linear(tree: exp.Expr) -> _Linear:
    """A time expression as a sum; whatever is not a sum is one term of it."""
    if isinstance(tree, exp.Paren):
        return _linear(tree.this)
    if isinstance(tree, exp.Add | exp.Sub):
        return _linear(tree.this).plus(_linear(tree.expression), 1 if isinstance(tree, exp.Add) else -1)
    if isinstance(tree, exp.Neg):
        return _Linear().plus(_linear(tree.this), -1)
    if isinstance(tree, exp.Interval):
        length = interval_length(tree)
        if length is not None:
            return _Linear(micros=length.micros, months=bool(length.months))
    if isinstance(tree, exp.Mul):
        scaled = _scaled(tree.this, tree.expression) or _scaled(tree.expression, tree.this)
        if scaled is not None:
            return scaled
    return _Linear(((1, tree),))


def _scaled(number: exp.Expr, interval: exp.Expr) -> _Linear | None:
    """`3 * INTERVAL '1 minute'`."""
    factor, constant = number.unnest(), _linear(interval)
    if isinstance(factor, exp.Literal) and factor.name.isdigit() and not constant.terms:
        times = int(factor.name[:18])
        return _Linear((), constant.micros * times, constant.months)
    return None


def _report_missing(
    chosen: Sequence[_Bound],
    rejected: Sequence[_Rejected],
    parts: Sequence[Part],
    sides: Sides,
    span: Span,
    example: tuple[str, str],
    report: Report,
) -> None:
    if rejected:
        for item in rejected:
            report.add(item.code, item.span, item.message, item.hint)
        return
    if chosen:
        left, right = chosen[0].left.sql(), chosen[0].right.sql()
        lower = any(bound.lower is not None for bound in chosen)
        missing, side, other = ("upper", "after", "<=") if lower else ("lower", "before", ">=")
        sign = "+" if lower else "-"
        report.add(
            "PQL402",
            span_of_all([parts[bound.part].span for bound in chosen]),
            f"the time window has no {missing} bound: {right} may be any time {side} {left}",
            f"add AND {right} {other} {left} {sign} INTERVAL '3 minutes', or how long it may be",
        )
        return
    shifted = _number_shift(parts, sides)
    (left, right), place = shifted or (example, span)
    window = f"{right} BETWEEN {left} - INTERVAL '3 minutes' AND {left} + INTERVAL '3 minutes'"
    hint = f"add AND {window}, or how long it may be"
    if any(isinstance(part.expression, exp.Or) and _has_interval(part.expression) for part in parts):
        hint = f"bounds inside OR do not count, as they do not always hold; {hint}"
    elif shifted:
        hint = f"shift times by an INTERVAL, not by a number: {window}"
    report.add("PQL401", place, "the join has no time bound, so its rows would have to be kept forever", hint)


def _has_interval(tree: exp.Expr) -> bool:
    return tree.find(exp.Interval) is not None


def _number_shift(parts: Sequence[Part], sides: Sides) -> tuple[tuple[str, str], Span] | None:
    """The columns and the place of a comparison such as `r.t <= l.t + 60`."""
    for part in parts:
        if isinstance(part.expression, exp.Between | exp.LT | exp.LTE | exp.GT | exp.GTE):
            columns = list(part.expression.find_all(exp.Column))
            left = [column.sql() for column in columns if column.table in sides.left]
            right = [column.sql() for column in columns if column.table == sides.right]
            if left and right and part.expression.find(exp.Add, exp.Sub):
                return (left[0], right[0]), part.span
    return None
