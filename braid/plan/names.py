"""Names that the planner gives to statements, categories and columns of its own.

They depend only on what they name, never on its place, so that adding, dropping or reordering columns renames
nothing: blocks that are already in the log stay readable by name. None starts with two underscores, so that a
rewritten application is a program like any other; blocks have the kernels' names for keys, time and flag.
"""

from __future__ import annotations

import hashlib
import re

from sqlglot import exp
from sqlglot.dialects.spark import Spark

from braid.core import columns
from braid.core.side import Side
from braid.kernels.join.spec import Neighbour

TIME = "time__"
"""The event time of a join input; `__time` in blocks."""
LIVE = "live__"
"""The flag that says whether a row can match; `__live` in blocks."""
OPERAND = "op__"
"""Prefix of the operands of residual predicates."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEYWORDS = frozenset(Spark.tokenizer_class.KEYWORDS)
_KEY = re.compile(r"key(\d+)__")
_RAW = re.compile(r"in_(?:left|right)__(.*)")
_RESERVED = re.compile(rf"in_(left|right|previous|next)__.*|{OPERAND}.*|{TIME}|{LIVE}|{_KEY.pattern}")


def quote(name: str) -> str:
    """A name as Spark SQL and PQL read it back: in backticks unless it is plain."""
    if _PLAIN.fullmatch(name) and name.upper() not in _KEYWORDS:
        return name
    return f"`{name.replace('`', '``')}`"


def raw(side: Side, column: str) -> str:
    """A column of one side that is carried through the join as it is."""
    return f"in_{side.value}__{column}"


def carried_name(column: str) -> str:
    """The name that the program knows a column of a join's or operator's input by."""
    found = _RAW.fullmatch(column)
    return found[1] if found else column


def neighbour(which: Neighbour, column: str) -> str:
    """A column of the right row before or after a left row."""
    return f"in_{which.value}__{column}"


def fetched(alias: str, column: str) -> str:
    """What the expressions of a stage call a column that a lookup fetches."""
    return f"{alias}__{column}"


def operand(sql: str) -> str:
    """An operand of a residual predicate, named after its text."""
    return f"{OPERAND}{hashlib.sha256(sql.encode()).hexdigest()[:8]}"


def key(position: int) -> str:
    """The column of a join key; `__key0`, `__key1`, ... in blocks."""
    return f"key{position}__"


def is_key(column: str) -> bool:
    """Whether a column of a join's input is one of its keys."""
    return _KEY.fullmatch(column) is not None


def is_special(column: str) -> bool:
    """Whether a column of a join's input is not payload: time, live flag or key."""
    return column in (TIME, LIVE) or is_key(column)


def is_reserved(column: str) -> bool:
    """Whether the planner may give this name to a column of its own."""
    return _RESERVED.fullmatch(column) is not None


def in_block(column: str) -> str:
    """The name under which blocks hold a column of a join's input."""
    found = _KEY.fullmatch(column)
    if found is not None:
        return f"{columns.KEY}{found[1]}"
    return {TIME: columns.TIME, LIVE: columns.LIVE}.get(column, column)


def carried(relation: str, column: str) -> str:
    """A column of one relation inside the intermediate view of a chain of joins."""
    return f"{relation}__{column}"


def chain_view(view: str, position: int) -> str:
    """The view that holds the first `position` joins of a chain."""
    return f"{view}__{position}"


def slicer_view(view: str, input_: str) -> str:
    """The statement that holds what the slicer of one input of a join or operator computes."""
    return f"{view}__{input_}"


def join_view(view: str) -> str:
    """The statement that holds only the join itself."""
    return f"{view}__join"


def operator_view(view: str) -> str:
    """The statement that holds only the operator itself."""
    return f"{view}__operator"


def owner(view: str) -> str:
    """The view that a statement with only a join or operator was a part of."""
    return view.removesuffix(join_view("")).removesuffix(operator_view(""))


def writer(statement: str) -> str:
    """The table that writes a statement's rows to a category of the application."""
    return f"{statement}__rows"


def category(application: str, name: str, input_: str | None = None) -> str:
    """A category of the application: the rows of a view, or an input of a join or operator."""
    return f"{application}.{name}.{input_}" if input_ else f"{application}.{name}"


def column_name(column: exp.Column) -> str:
    """The name of a column node, spelled as declared."""
    return str(column.this.this)
