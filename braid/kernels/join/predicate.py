"""Residual predicates over candidate pairs, evaluated column-wise in SQL three-valued logic."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from braid.core.errors import SchemaError
from braid.core.json_values import Json
from braid.core.side import Side

Fetch = Callable[["ColumnRef"], pa.Array]
"""Gives the values of a column for the candidate pairs at hand."""

_COMPARE = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


class Predicate(ABC):
    """Base of the predicate tree; immutable."""

    @abstractmethod
    def columns(self) -> Iterator[ColumnRef]:
        """All column references in the tree."""

    @abstractmethod
    def evaluate(self, fetch: Fetch) -> pa.Array:
        """Boolean array with NULL for unknown."""

    @abstractmethod
    def to_json(self) -> Json:
        """A stable JSON form, read back by `predicate_from_json`."""


@dataclass(frozen=True)
class ColumnRef:
    """A column of one side."""

    side: Side
    name: str


@dataclass(frozen=True)
class Compare(Predicate):
    """`left op right` between two columns; NULL when either is NULL, or null-safe with `<=>`."""

    op: str
    left: ColumnRef
    right: ColumnRef

    def __post_init__(self) -> None:
        if self.op not in _COMPARE and self.op != "<=>":
            raise SchemaError(f"unknown comparison {self.op!r}", hint=f"one of {', '.join(_COMPARE)}, <=>")

    def columns(self) -> Iterator[ColumnRef]:
        """The two operands."""
        yield self.left
        yield self.right

    def evaluate(self, fetch: Fetch) -> pa.Array:
        """Compare the operands element by element."""
        return compare(self.op, fetch(self.left), fetch(self.right))

    def to_json(self) -> Json:
        """`{"op": ..., "left": [side, name], "right": [side, name]}`."""
        return {
            "op": self.op,
            "left": [self.left.side.value, self.left.name],
            "right": [self.right.side.value, self.right.name],
        }


@dataclass(frozen=True)
class Truth(Predicate):
    """A boolean column used as a predicate."""

    column: ColumnRef

    def columns(self) -> Iterator[ColumnRef]:
        """The one column."""
        yield self.column

    def evaluate(self, fetch: Fetch) -> pa.Array:
        """The column itself."""
        return fetch(self.column)

    def to_json(self) -> Json:
        """`{"op": "truth", "column": [side, name]}`."""
        return {"op": "truth", "column": [self.column.side.value, self.column.name]}


@dataclass(frozen=True)
class IsNull(Predicate):
    """`column IS NULL`."""

    column: ColumnRef

    def columns(self) -> Iterator[ColumnRef]:
        """The one column."""
        yield self.column

    def evaluate(self, fetch: Fetch) -> pa.Array:
        """Never NULL itself."""
        return pc.is_null(fetch(self.column))

    def to_json(self) -> Json:
        """`{"op": "is_null", "column": [side, name]}`."""
        return {"op": "is_null", "column": [self.column.side.value, self.column.name]}


@dataclass(frozen=True)
class And(Predicate):
    """Three-valued AND of its parts."""

    parts: tuple[Predicate, ...]

    def columns(self) -> Iterator[ColumnRef]:
        """Those of all parts."""
        for part in self.parts:
            yield from part.columns()

    def evaluate(self, fetch: Fetch) -> pa.Array:
        """FALSE wins over NULL, NULL over TRUE."""
        result = self.parts[0].evaluate(fetch)
        for part in self.parts[1:]:
            result = pc.and_kleene(result, part.evaluate(fetch))
        return result

    def to_json(self) -> Json:
        """`{"op": "and", "parts": [...]}`."""
        return {"op": "and", "parts": [part.to_json() for part in self.parts]}


@dataclass(frozen=True)
class Or(Predicate):
    """Three-valued OR of its parts."""

    parts: tuple[Predicate, ...]

    def columns(self) -> Iterator[ColumnRef]:
        """Those of all parts."""
        for part in self.parts:
            yield from part.columns()

    def evaluate(self, fetch: Fetch) -> pa.Array:
        """TRUE wins over NULL, NULL over FALSE."""
        result = self.parts[0].evaluate(fetch)
        for part in self.parts[1:]:
            result = pc.or_kleene(result, part.evaluate(fetch))
        return result

    def to_json(self) -> Json:
        """`{"op": "or", "parts": [...]}`."""
        return {"op": "or", "parts": [part.to_json() for part in self.parts]}


@dataclass(frozen=True)
class Not(Predicate):
    """Three-valued NOT."""

    part: Predicate

    def columns(self) -> Iterator[ColumnRef]:
        """Those of the part."""
        yield from self.part.columns()

    def evaluate(self, fetch: Fetch) -> pa.Array:
        """NULL stays NULL."""
        return pc.invert(self.part.evaluate(fetch))

    def to_json(self) -> Json:
        """`{"op": "not", "part": ...}`."""
        return {"op": "not", "part": self.part.to_json()}


def compare(op: str, left: pa.Array, right: pa.Array) -> pa.Array:
    """Compare two arrays as SQL does: NaN equals NaN and is greater than every other number."""
    if op == "<=>":
        return _null_safe_equal(left, right)
    if pa.types.is_floating(left.type) or pa.types.is_floating(right.type):
        return _compare_floats(op, left, right)
    return _COMPARE[op](left, right)


def _null_safe_equal(left: pa.Array, right: pa.Array) -> pa.Array:
    both_null = pc.and_(pc.is_null(left), pc.is_null(right))
    return pc.or_(both_null, pc.fill_null(compare("=", left, right), False))


def _compare_floats(op: str, left: pa.Array, right: pa.Array) -> pa.Array:
    left, right = pc.cast(left, pa.float64()), pc.cast(right, pa.float64())
    result = _COMPARE[op](left, right)
    left_nan, right_nan = pc.is_nan(left), pc.is_nan(right)
    either = pc.or_(left_nan, right_nan)
    if not pc.any(either).as_py():
        return result
    # With NaN as the greatest number, and equal to itself, the order of two values is that of these ranks.
    ranked = _COMPARE[op](pc.cast(left_nan, pa.int8()), pc.cast(right_nan, pa.int8()))
    return pc.if_else(either, ranked, result)


def predicate_from_json(value: Json) -> Predicate:
    """Read back what `Predicate.to_json` wrote."""
    if not isinstance(value, dict):
        raise SchemaError(f"a predicate must be an object, not {value!r}")
    op = value.get("op")
    if op in ("and", "or"):
        parts = value["parts"]
        assert isinstance(parts, list)
        built = tuple(predicate_from_json(part) for part in parts)
        return And(built) if op == "and" else Or(built)
    if op == "not":
        return Not(predicate_from_json(value["part"]))
    if op == "truth":
        return Truth(_column(value["column"]))
    if op == "is_null":
        return IsNull(_column(value["column"]))
    return Compare(str(op), _column(value["left"]), _column(value["right"]))


def _column(value: Json) -> ColumnRef:
    if not (isinstance(value, list) and len(value) == 2):
        raise SchemaError(f"a column must be [side, name], not {value!r}")
    return ColumnRef(Side(str(value[0])), str(value[1]))
