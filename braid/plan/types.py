"""Types of expressions, as the planner needs them."""

from __future__ import annotations

from sqlglot import exp

from braid.lang import types
from braid.plan.expressions import columns_of

_ATOMIC = (types.Family.NUMBER, types.Family.STRING, types.Family.BOOLEAN, types.Family.TIME)


def type_of(expression: exp.Expr) -> str:
    """The Spark SQL type of an expression or part of one."""
    expression = expression.unnest()
    found = None if expression.type is None else types.from_sqlglot(expression.type)
    assert found is not None, (repr(expression), [repr(c) for c in columns_of(expression)])
    return found


def same_type(expression: exp.Expr, type_: str) -> bool:
    """Whether an expression already has that type."""
    return type_of(expression) == type_


def common_type(left: exp.Expr, right: exp.Expr) -> str | None:
    """The type in which two expressions are compared, or None when they cannot be."""
    return types.common(type_of(left), type_of(right))


def is_exact(type_: str) -> bool:
    """Whether sums of values of the type are exact, so that terms can be moved across a comparison."""
    if types.family(type_) is types.Family.NUMBER:
        return type_ not in ("float", "double")
    return types.family(type_) in (types.Family.TIME, types.Family.INTERVAL)


def is_atomic(type_: str) -> bool:
    """Whether the join can compare values of the type."""
    return types.family(type_) in _ATOMIC
