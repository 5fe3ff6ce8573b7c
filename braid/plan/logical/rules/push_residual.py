"""Compute the operands of residual predicates in the slicers, so that the join only compares columns."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from braid.core.side import Side
from braid.lang.errors import Diagnostic, PqlError
from braid.lang.query import Condition, Query
from braid.plan.logical.expressions import cast, column, condition, output, sql
from braid.plan.logical.one_sided_operands import COMPARISONS
from braid.plan.logical.selects import Parts, each_join
from braid.plan.logical.types import common_type, is_atomic, same_type, type_of
from braid.plan.names import operand


def push_residual(query: Query) -> Query:
    """`l.a + 1 > r.b` becomes `l.op__x > r.op__y`; a one-sided predicate inside OR becomes one flag."""
    return each_join(query, lambda parts: _Pusher(query, parts).push())


class _Pusher:
    """Collects the columns that the residual of one join needs."""

    def __init__(self, query: Query, parts: Parts) -> None:
        self._query = query
        self._parts = parts

    def push(self) -> Parts:
        """Rewrite the whole residual."""
        residual = tuple(
            condition(self._predicate(part.expression, part), part.span) for part in self._parts.on.residual
        )
        return self._parts.with_on(replace(self._parts.on, residual=residual))

    def _predicate(self, expression: exp.Expr, part: Condition) -> exp.Expr:
        sides = self._parts.sides(expression)
        if len(sides) < 2:
            return self._column(expression, "boolean", next(iter(sides), Side.LEFT), part)
        if isinstance(expression, exp.Binary) and isinstance(expression, COMPARISONS):
            return self._comparison(expression, part)
        result = expression.copy()
        for name in ("this", "expression"):
            child = expression.args.get(name)
            if isinstance(child, exp.Expr):
                result.set(name, self._predicate(child, part))
        return result

    def _comparison(self, expression: exp.Binary, part: Condition) -> exp.Expr:
        operands = (expression.left, expression.right)
        type_ = common_type(*operands)
        if type_ is None or not is_atomic(type_):
            names = " and ".join(type_of(e) or "NULL" for e in operands)
            message = f"{sql(expression, qualified=True)} compares {names} in a join"
            hint = "compare values of atomic types, such as fields of a struct or to_json(...) of both"
            raise PqlError(self._query.source, [Diagnostic("PQL302", message, part.span, hint)])
        sides = [next(iter(self._parts.sides(e)), None) for e in operands]
        left = sides[0] or (sides[1] or Side.LEFT).other
        right = sides[1] or left.other
        result = type(expression)(
            this=self._column(operands[0], type_, left, part),
            expression=self._column(operands[1], type_, right, part),
        )
        result.type = expression.type
        return result

    def _column(self, expression: exp.Expr, type_: str, side: Side, part: Condition) -> exp.Expr:
        """A column of the slicer that holds the expression in the given type."""
        if not same_type(expression, type_):
            expression = cast(expression, type_)
        view = self._parts.slicer(side)
        if isinstance(expression, exp.Column):
            return expression.copy()
        value = self._parts.into_slicer(expression, side)
        name = operand(sql(value))
        self._parts = self._parts.with_column(side, output(name, value, type_, part.span))
        return column(name, view.name, type_)
