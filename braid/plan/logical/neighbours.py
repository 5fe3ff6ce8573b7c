"""PREVIOUS(x) and NEXT(x): columns of the right rows next to a left row, which an ASOF join gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from braid.kernels.join.spec import Neighbour
from braid.plan.names import column_name

INTERPOLATE = "INTERPOLATE"


def call(neighbour: Neighbour, column: exp.Expr) -> exp.Anonymous:
    """`PREVIOUS(column)` or `NEXT(column)`."""
    node = exp.Anonymous(this=neighbour.name, expressions=[column.copy()])
    node.type = column.type
    return node


def neighbour_of(expression: exp.Expr) -> tuple[Neighbour, exp.Column] | None:
    """Which neighbour and which column an expression stands for, if it is nothing else."""
    if isinstance(expression, exp.Anonymous) and expression.name.upper() in Neighbour.__members__:
        [argument] = expression.expressions
        if isinstance(argument, exp.Column):
            return Neighbour[expression.name.upper()], argument
    return None


def find_calls(expression: exp.Expr) -> Iterator[tuple[exp.Expr, Neighbour, exp.Column]]:
    """All such calls in an expression."""
    for node in list(expression.find_all(exp.Anonymous)):
        found = neighbour_of(node)
        if found is not None:
            yield node, *found


def replace_calls(
    expression: exp.Expr, change: Callable[[Neighbour, exp.Column], exp.Expr | None]
) -> exp.Expr:
    """Put something else in the place of such calls; None leaves one as it is."""
    root = expression.copy()
    for node, neighbour, column in find_calls(root):
        new = change(neighbour, column)
        if new is None:
            continue
        if node is root:
            return new
        node.replace(new)
    return root


def carried_neighbour(neighbour: Neighbour, column: exp.Column) -> str:
    """What a neighbour's column is called inside the intermediate view of a chain of joins."""
    return f"{column.table}__{column_name(column)}__{neighbour.value}"
