"""Residual predicates follow SQL's three-valued logic and its order of floats."""

from __future__ import annotations

import itertools

import duckdb
import pyarrow as pa
import pytest

from braid.core.errors import SchemaError
from braid.core.side import Side
from braid.kernels.join.predicate import (
    And,
    ColumnRef,
    Compare,
    IsNull,
    Not,
    Or,
    Predicate,
    Truth,
    compare,
    predicate_from_json,
)

L, R = ColumnRef(Side.LEFT, "a"), ColumnRef(Side.RIGHT, "b")
FLOATS = [None, float("-inf"), -1.0, -0.0, 0.0, 2.5, float("inf"), float("nan")]


@pytest.mark.parametrize("op", ["=", "<>", "<", "<=", ">", ">=", "<=>"])
def test_floats_compare_as_in_duckdb(op: str) -> None:
    left, right = zip(*itertools.product(FLOATS, FLOATS), strict=True)
    table = pa.table({"a": pa.array(left, pa.float64()), "b": pa.array(right, pa.float64())})
    sql = "IS NOT DISTINCT FROM" if op == "<=>" else op
    with duckdb.connect() as connection:
        connection.register("t", table)
        expected = [row[0] for row in connection.execute(f"SELECT a {sql} b FROM t").fetchall()]
    assert compare(op, table["a"].combine_chunks(), table["b"].combine_chunks()).to_pylist() == expected


TREES: list[tuple[Predicate, str]] = [
    (And((Truth(L), Truth(R))), "a AND b"),
    (Or((Truth(L), Truth(R))), "a OR b"),
    (Not(And((Truth(L), Not(Truth(R))))), "NOT (a AND NOT b)"),
    (Or((IsNull(L), Compare("=", L, R))), "a IS NULL OR a = b"),
    (And((Or((Truth(L), Not(Truth(L)))), Compare("<=>", L, R))), "(a OR NOT a) AND a IS NOT DISTINCT FROM b"),
]


@pytest.mark.parametrize(("tree", "sql"), TREES, ids=[sql for _, sql in TREES])
def test_trees_are_three_valued_and_round_trip(tree: Predicate, sql: str) -> None:
    left, right = zip(*itertools.product([True, False, None], repeat=2), strict=True)
    values = {L: pa.array(left, pa.bool_()), R: pa.array(right, pa.bool_())}
    with duckdb.connect() as connection:
        connection.register("t", pa.table({"a": values[L], "b": values[R]}))
        expected = [row[0] for row in connection.execute(f"SELECT {sql} FROM t").fetchall()]
    assert tree.evaluate(values.__getitem__).to_pylist() == expected
    assert predicate_from_json(tree.to_json()) == tree


def test_unknown_comparisons_are_refused() -> None:
    with pytest.raises(SchemaError, match="unknown comparison '=='"):
        Compare("==", L, R)
