"""Types of expressions, as the planner needs them."""

from __future__ import annotations

from sqlglot import exp

from braid.lang import sql_types as types
from braid.lang.source import Span
from braid.lang.types.expressions import Typer

_ATOMIC = (types.Family.NUMBER, types.Family.STRING, types.Family.BOOLEAN, types.Family.TIME)


def type_of(expression: exp.Expr) -> str | None:
    """The Spark SQL type of an expression or part of one; None for a bare NULL."""
    found = _typer().of(expression)
    return found if isinstance(found, str) else None


def same_type(expression: exp.Expr, type_: str) -> bool:
    """Whether an expression already has that type."""
    return type_of(expression) == type_


def common_type(left: exp.Expr, right: exp.Expr) -> str | None:
    """The type in which two expressions are compared, or None when they cannot be."""
    found = _typer().relate(left, right, "=")
    return found if isinstance(found, str) else None


def is_exact(type_: str | None) -> bool:
    """Whether sums of values of the type are exact, so that terms can be moved across a comparison."""
    if type_ is None or type_ in ("float", "double"):
        return False
    return types.family(type_) in (types.Family.NUMBER, types.Family.TIME, types.Family.INTERVAL)


def is_atomic(type_: str | None) -> bool:
    """Whether the join can compare values of the type."""
    return type_ is not None and types.family(type_) in _ATOMIC


def _of_column(node: exp.Column) -> str | None:
    return None if node.type is None else types.from_sqlglot(node.type)


def _typer() -> Typer:
    """A new one each time: it remembers nodes by identity, which outlives short-lived expressions."""
    return Typer(_of_column, Span(0, 0))
