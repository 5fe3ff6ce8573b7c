"""Names that the planner gives to statements, categories and columns of its own.

They depend only on what they name, never on its place, so that adding, dropping or reordering columns renames
nothing: blocks that are already in the log stay readable by name.
"""

from __future__ import annotations

import hashlib

from sqlglot import exp

from braid.kernels.side import Side
from braid.kernels.spec import HASH, KEY, LIVE, TIME

RESERVED = "__"
"""Prefix of the columns that the planner adds; a program's own output columns must not have it."""

OPERAND = "__op_"
"""Prefix of the operands of residual predicates."""


def raw(side: Side, column: str) -> str:
    """A column of one side that is carried through the join as it is."""
    return f"{RESERVED}{side.value}_{column}"


def operand(sql: str) -> str:
    """An operand of a residual predicate, named after its text."""
    return f"{OPERAND}{hashlib.sha256(sql.encode()).hexdigest()[:8]}"


def carried(relation: str, column: str) -> str:
    """A column of one relation inside the intermediate view of a chain of joins."""
    return f"{relation}__{column}"


def chain_view(view: str, position: int) -> str:
    """The view that holds the first `position` joins of a chain."""
    return f"{view}__{position}"


def slicer_view(view: str, side: Side) -> str:
    """The statement that holds what one slicer of a join view computes."""
    return f"{view}__{side.value}"


def join_view(view: str) -> str:
    """The statement that holds only the join itself."""
    return f"{view}__join"


def writer(statement: str) -> str:
    """The table that writes a statement's rows to a category of the application."""
    return f"{statement}__rows"


def category(application: str, name: str, side: Side | None = None) -> str:
    """A category of the application: the rows of a view, or the input of one side of a join view."""
    return f"{application}.{name}.{side.value}" if side else f"{application}.{name}"


def is_special(column: str) -> bool:
    """Whether a column of a join's input is not payload: hash, time, live flag or key."""
    return column in (HASH, TIME, LIVE) or (column.startswith(KEY) and column[len(KEY) :].isdigit())


def key(position: int) -> str:
    """The column of a join key."""
    return f"{KEY}{position}"


def column_name(column: exp.Column) -> str:
    """The name of a column node, spelled as declared."""
    return str(column.this.this)
