"""Rewrite a predicate over two relations into comparisons whose operands refer to one relation each.

The join kernel compares columns of both sides; everything else must have been computed by a slicer, which
sees one side. Sums are taken apart by moving terms across the comparison, for exact types only: with
floating point the rounding, and with it the result, could differ.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from braid.plan.logical.expressions import data_type, relations_of
from braid.plan.logical.types import is_exact, type_of

_FLIP: Final[dict[type[exp.Expr], type[exp.Binary]]] = {
    exp.EQ: exp.EQ,
    exp.NEQ: exp.NEQ,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
}
COMPARISONS: Final = (*_FLIP, exp.NullSafeEQ, exp.NullSafeNEQ)

_SPLIT = "compare an expression over one table with an expression over the other"
_EXACT = f"{_SPLIT}, or cast both to DECIMAL, BIGINT or TIMESTAMP so that terms can be moved exactly"

Term = tuple[int, exp.Expr]


class MixedError(Exception):
    """A part of a predicate that needs both sides at once and cannot be rewritten."""

    def __init__(self, expression: exp.Expr, hint: str = _SPLIT) -> None:
        super().__init__(hint)
        self.expression = expression
        self.hint = hint


def isolate(expression: exp.Expr) -> exp.Expr:
    """The same predicate with one relation per operand; raises `MixedError` if there is no such form."""
    expression = expression.unnest()
    if len(relations_of(expression)) < 2:
        return expression.copy()
    if isinstance(expression, exp.And | exp.Or):
        parts = [_enclosed(isolate(part), type(expression)) for part in (expression.left, expression.right)]
        return _typed(type(expression)(this=parts[0], expression=parts[1]))
    if isinstance(expression, exp.Not):
        return _typed(exp.Not(this=exp.Paren(this=isolate(expression.this))))
    if isinstance(expression, exp.Between) and not expression.args.get("symmetric"):
        value, low, high = expression.this, expression.args["low"], expression.args["high"]
        return _and(_compared(exp.GTE, value, low), _compared(exp.LTE, value, high))
    if isinstance(expression, exp.In) and expression.expressions:
        options = [_compared(exp.EQ, expression.this, option) for option in expression.expressions]
        result = options[0]
        for option in options[1:]:
            result = _typed(exp.Or(this=result, expression=option))
        return result
    if isinstance(expression, exp.Binary) and isinstance(expression, COMPARISONS):
        return _compared(type(expression), expression.left, expression.right)
    raise MixedError(expression)


def _compared(operator: type[exp.Binary], left: exp.Expr, right: exp.Expr) -> exp.Expr:
    left, right = left.unnest(), right.unnest()
    if all(len(relations_of(operand)) < 2 for operand in (left, right)):
        return _typed(operator(this=left.copy(), expression=right.copy()))
    if operator not in _FLIP:
        raise MixedError(operator(this=left.copy(), expression=right.copy()))
    if _is_abs(right) and not _is_abs(left):
        return _compared(_FLIP[operator], right, left)
    if _is_abs(left) and operator in (exp.LT, exp.LTE, exp.GT, exp.GTE):
        inside, negated = left.expressions[0], _negative(right)
        below, above = _compared(operator, inside, right), _compared(_FLIP[operator], inside, negated)
        if operator in (exp.LT, exp.LTE):
            return _and(below, above)
        return _typed(exp.Or(this=below, expression=above))
    return _moved(operator, left, right)


def _moved(operator: type[exp.Binary], left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Move terms so that one relation stands on each side of the comparison."""
    terms = [*_terms(left, 1), *_terms(right, -1)]
    for _, term in terms:
        if len(relations_of(term)) > 1:
            raise MixedError(term)
        if not is_exact(type_of(term)):
            raise MixedError(operator(this=left.copy(), expression=right.copy()), _EXACT)
    relations = sorted(relations_of(left) | relations_of(right))
    groups = [[term for term in terms if relations_of(term[1]) == {relation}] for relation in relations]
    constants = [term for term in terms if not relations_of(term[1])]
    if any(sign > 0 for sign, _ in groups[0]):
        first, second = groups
    else:
        second, first = groups
    here = _sum(first)
    there = _sum([(-sign, term) for sign, term in (*constants, *second)])
    return _typed(operator(this=here, expression=there))


def _terms(expression: exp.Expr, sign: int) -> list[Term]:
    expression = expression.unnest()
    if len(relations_of(expression)) > 1:
        if isinstance(expression, exp.Add | exp.Sub):
            other = sign if isinstance(expression, exp.Add) else -sign
            return [*_terms(expression.left, sign), *_terms(expression.right, other)]
        if isinstance(expression, exp.Neg):
            return _terms(expression.this, -sign)
    return [(sign, expression)]


def _sum(terms: list[Term]) -> exp.Expr:
    ordered = sorted(terms, key=lambda term: -term[0])
    result: exp.Expr | None = None
    for sign, term in ordered:
        operand = exp.Paren(this=term.copy()) if isinstance(term, exp.Binary | exp.Neg) else term.copy()
        if result is None:
            result = operand if sign > 0 else exp.Neg(this=operand)
        else:
            result = (exp.Add if sign > 0 else exp.Sub)(this=result, expression=operand)
    assert result is not None
    return result


def _negative(expression: exp.Expr) -> exp.Expr:
    operand = expression.copy()
    if isinstance(operand, exp.Literal) and operand.is_number:
        return exp.Neg(this=operand)
    return exp.Neg(this=exp.Paren(this=operand))


def _is_abs(expression: exp.Expr) -> bool:
    return (
        isinstance(expression, exp.Anonymous)
        and expression.name.upper() == "ABS"
        and len(expression.expressions) == 1
        and len(relations_of(expression)) > 1
    )


def _and(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return _typed(exp.And(this=_enclosed(left, exp.And), expression=_enclosed(right, exp.And)))


def _enclosed(part: exp.Expr, inside: type[exp.Expr]) -> exp.Expr:
    if isinstance(part, exp.And | exp.Or) and not isinstance(part, inside):
        return exp.Paren(this=part)
    return part


def _typed(expression: exp.Expr) -> exp.Expr:
    expression.type = data_type("boolean")
    return expression
