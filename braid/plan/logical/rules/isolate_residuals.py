"""Bring residual predicates into the form that the join evaluates: comparisons with one side per operand."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from braid.kernels.join.spec import JoinType, MatchMode
from braid.lang.errors import Diagnostic, PqlError
from braid.lang.query import Condition, Equality, Join, JoinSelect, Query
from braid.plan.logical.expressions import condition, conjuncts, relations_of, sql
from braid.plan.logical.one_sided_operands import MixedError, isolate
from braid.plan.logical.types import common_type

CODE = "PQL410"


def isolate_residuals(query: Query) -> Query:
    """Rewrite residuals such as `l.a + r.b > 3`; what cannot be rewritten is a filter after an inner join.

    An equality that comes out of this becomes a join key. For outer joins and single matches there is no
    later place to evaluate a residual, so one that cannot be rewritten is refused.
    """
    problems: list[Diagnostic] = []
    views = []
    for view in query.views:
        select = view.select
        if isinstance(select, JoinSelect) and select.joins[0].residual:
            view = replace(view, select=_isolate(select, problems))
        views.append(view)
    if problems:
        raise PqlError(query.source, problems)
    return replace(query, views=tuple(views))


def _isolate(select: JoinSelect, problems: list[Diagnostic]) -> JoinSelect:
    join, left = select.joins[0], select.source.alias
    residual: list[Condition] = []
    after: list[Condition] = []
    keys = list(join.keys)
    for part in join.residual:
        try:
            rewritten = isolate(part.expression)
        except MixedError as mixed:
            if join.type is JoinType.INNER and join.match is MatchMode.ALL:
                after.append(part)
            else:
                problems.append(_refusal(join, part, mixed))
            continue
        for expression in conjuncts(rewritten):
            key = _as_key(expression, left, part)
            if key is not None:
                keys.append(key)
            else:
                residual.append(condition(expression, part.span))
    join = replace(join, keys=tuple(keys), residual=tuple(residual))
    return replace(select, joins=(join,), where=(*select.where, *after))


def _as_key(expression: exp.Expr, left: str, part: Condition) -> Equality | None:
    if not isinstance(expression, exp.EQ):
        return None
    operands = (expression.left.unnest(), expression.right.unnest())
    sides = [relations_of(operand) for operand in operands]
    if any(len(side) != 1 for side in sides) or sides[0] == sides[1]:
        return None
    if sides[0] != {left}:
        operands = operands[::-1]
    type_ = common_type(*operands)
    return None if type_ is None else Equality(*operands, type_, part.span)


def _refusal(join: Join, part: Condition, mixed: MixedError) -> Diagnostic:
    kind = (
        f"MATCH {join.match.value.upper()}" if join.match is not MatchMode.ALL else f"{join.type.value} join"
    )
    shown = sql(mixed.expression, qualified=True)
    message = f"{shown} mixes both sides of the join, which a {kind} cannot evaluate"
    return Diagnostic(CODE, message, part.span, mixed.hint)
