"""Types: inferred from use, declared, and those of expressions."""

from __future__ import annotations

import pytest

from braid.lang import compile_text
from braid.lang import sql_types as types
from braid.lang.types.functions import MANY_ROWS, OUTSIDE, REPLAY, signatures
from tests.lang.programs import FIXTURES, column_types

COLUMNS = {
    "s": "STRING",
    "i": "INT",
    "b": "BIGINT",
    "d": "DOUBLE",
    "f": "FLOAT",
    "de": "DECIMAL(10, 2)",
    "ts": "TIMESTAMP",
    "tn": "TIMESTAMP_NTZ",
    "dt": "DATE",
    "bo": "BOOLEAN",
    "a": "ARRAY<STRING>",
    "ai": "ARRAY<INT>",
    "aa": "ARRAY<ARRAY<INT>>",
    "m": "MAP<STRING, INT>",
    "st": "STRUCT<x: INT, y: STRING>",
    "bi": "BINARY",
    "v": "VARIANT",
}
SPARK_TYPES = [line.split("\t") for line in (FIXTURES / "spark_types.tsv").read_text().splitlines()]


def inferred(uses: str, columns: str = "a, b, c, d, t") -> dict[str, str]:
    """Types of the columns of a table after a SELECT with these uses."""
    table = f"CREATE APPLICATION x; CREATE INPUT TABLE i ({columns}) FROM SCRIBE('i');"
    return column_types(compile_text(f"{table} CREATE VIEW v AS SELECT {uses};"), "i")


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("a FROM i", "string"),
        ("ABS(a) AS x FROM i", "double"),
        ("a + 1 AS x FROM i", "double"),
        ("-a AS x FROM i", "double"),
        ("a FROM i WHERE a = 200", "bigint"),
        ("a FROM i WHERE a IN (1, 2)", "bigint"),
        ("a FROM i WHERE a > 200", "double"),
        ("a FROM i WHERE a = 0.5", "double"),
        ("a FROM i WHERE a = 200 AND a * 2 > 1", "double"),
        ("a FROM i WHERE a = 'x'", "string"),
        ("COALESCE(a, 'x') AS x FROM i", "string"),
        ("COALESCE(a, b, 0.5) AS x FROM i", "double"),
        ("a FROM i WHERE a", "boolean"),
        ("a FROM i WHERE NOT a OR b", "boolean"),
        ("IF(a, 1, 2) AS x FROM i", "boolean"),
        ("CASE WHEN a THEN 1 END AS x FROM i", "boolean"),
        ("CASE a WHEN 1 THEN 2 END AS x FROM i", "bigint"),
        ("CASE WHEN TRUE THEN a ELSE 1.5 END AS x FROM i", "double"),
        ("a + INTERVAL '1 hour' AS x FROM i", "timestamp"),
        ("a FROM i WHERE a > TIMESTAMP '2024-01-01 00:00:00'", "timestamp"),
        ("HOUR(a) AS x FROM i", "timestamp"),
        ("UPPER(a) AS x FROM i", "string"),
        ("UPPER(a) AS x, ABS(a) AS y FROM i", "double"),
        ("a || '!' AS x FROM i", "string"),
        ("a LIKE 'x%' AS x FROM i", "string"),
        ("FROM_UNIXTIME(a) AS x FROM i", "bigint"),
        ("CAST(a AS INT) AS x FROM i", "string"),
        ("a FROM i WHERE a = b AND b = c AND c > 1.5", "double"),
        ("a - b AS x FROM i WHERE b + INTERVAL '1 hour' > c", "timestamp"),
        ("GREATEST(a, b) AS x FROM i WHERE b > DATE '2024-01-01'", "date"),
    ],
)
def test_inference_from_use(use, expected):
    assert inferred(use)["a"] == expected


def test_inference_goes_through_views_both_ways():
    text = """CREATE APPLICATION x;
    CREATE INPUT TABLE i (a, b BIGINT, c, d) FROM SCRIBE("i");
    CREATE VIEW v AS SELECT a AS p, b AS q, c AS r, a AS s FROM i;
    CREATE VIEW w AS SELECT p, q + 1 AS q, r FROM v WHERE r = q;
    CREATE TABLE t AS SELECT SQRT(p) AS p, q, r FROM w STORAGE CONSOLE;"""
    query = compile_text(text)
    assert column_types(query, "i") == {"a": "double", "b": "bigint", "c": "bigint", "d": "string"}
    assert column_types(query, "v") == {"p": "double", "q": "bigint", "r": "bigint", "s": "double"}
    assert column_types(query, "t") == {"p": "double", "q": "bigint", "r": "bigint"}


def test_declared_types_are_respected():
    assert inferred("ABS(a) AS x FROM i WHERE a = b", "a BIGINT, b") == {"a": "bigint", "b": "bigint"}
    query = compile_text(
        "CREATE APPLICATION x; CREATE INPUT TABLE i (a LONG, b VARCHAR(3),"
        " c STRUCT<x: INT, y: ARRAY<DOUBLE>>, d DECIMAL(5), e) FROM SCRIBE('i');"
    )
    assert column_types(query, "i") == {
        "a": "bigint",
        "b": "string",
        "c": "struct<x:int,y:array<double>>",
        "d": "decimal(5,0)",
        "e": "string",
    }
    assert [column.declared for column in query.inputs[0].columns] == [True] * 4 + [False]


def test_expressions_have_the_types_that_spark_gives_them():
    columns = ", ".join(f"{name} {type_}" for name, type_ in COLUMNS.items())
    items = ", ".join(f"{expression} AS c{i}" for i, (expression, _) in enumerate(SPARK_TYPES))
    table = f"CREATE APPLICATION x; CREATE INPUT TABLE t ({columns}) FROM SCRIBE('t');"
    query = compile_text(f"{table} CREATE VIEW v AS SELECT {items} FROM t;")
    ours = {e: column.type for (e, _), column in zip(SPARK_TYPES, query.views[0].columns, strict=True)}
    assert ours == dict(SPARK_TYPES)
    for column in query.views[0].select.columns:
        assert column.expression.type is not None


def test_no_function_is_both_usable_and_refused():
    refused = OUTSIDE | REPLAY | MANY_ROWS
    assert refused & set(signatures()) == set()


def test_nested_types_are_taken_apart():
    assert types.inner("map<string,struct<a:int,b:decimal(5,2)>>") == [
        "string",
        "struct<a:int,b:decimal(5,2)>",
    ]
    assert types.struct_fields("struct<A:int,`b c`:array<int>>") == {"a": "int", "b c": "array<int>"}
    assert types.inner("string") == []
