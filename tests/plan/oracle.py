"""DuckDB's answer to a program, taken from its text: no part of the compiler is used."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

import pyarrow as pa

from tests.plan.interpreter import connection, to_duckdb

_STATEMENT = re.compile(
    r"CREATE (VIEW|TABLE) (\w+) AS\s(.*?)(?:\sSTORAGE SCRIBE ?\(category = \"([\w.]+)\"\))?;", re.DOTALL
)
_MATCH = re.compile(
    r"(?P<items>SELECT .*?)\sFROM (?P<left>\w+ AS \w+)\s+(?P<type>\w+) JOIN (?P<right>\w+ AS \w+)\s+"
    r"ON (?P<on>.*?)\s+MATCH (?P<mode>\w+)(?:\s+WHERE (?P<where>.*))?$",
    re.DOTALL,
)
_RANKS = {
    "FIRST": "r.arrival__",
    "NEAREST": "abs(epoch_us(r.t) - epoch_us(l.t)), r.t, r.arrival__",
    "EARLIEST": "r.t, r.arrival__",
    "LATEST": "r.t DESC, r.arrival__",
}


def answer(text: str, inputs: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The rows of every stored table, by category. Inputs are named like their categories."""
    found = connection()
    for name, table in inputs.items():
        found.register(name, table)
    result = {}
    for kind, name, select, category in _STATEMENT.findall(text):
        query = _select(select)
        if kind == "VIEW":
            found.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {query}")
        else:
            result[category] = found.sql(query).to_arrow_table()
    return result


def _select(text: str) -> str:
    parts = _MATCH.match(text)
    if parts is None:
        return to_duckdb(text)
    left, right = (parts[side].split(" AS ")[0] for side in ("left", "right"))
    pairs = "SELECT l.arrival__ AS a, r.arrival__ AS b FROM l0 AS l JOIN r0 AS r"
    joined = to_duckdb(f"{pairs} ON {parts['on']}")
    pads = {"LEFT": "L", "RIGHT": "R", "FULL": "LR"}.get(parts["type"], "")
    padded = ""
    if "L" in pads:
        padded += " UNION ALL SELECT arrival__, NULL FROM l0 WHERE arrival__ NOT IN (SELECT a FROM m)"
    if "R" in pads:
        padded += " UNION ALL SELECT NULL, arrival__ FROM r0 WHERE arrival__ NOT IN (SELECT b FROM m)"
    items = to_duckdb(parts["items"])
    where = f" WHERE {to_duckdb(parts['where'])}" if parts["where"] else ""
    return (
        f"WITH l0 AS (SELECT *, row_number() OVER () AS arrival__ FROM {left}), "
        f"r0 AS (SELECT *, row_number() OVER () AS arrival__ FROM {right}), "
        f"m AS ({joined} QUALIFY row_number() OVER "
        f"(PARTITION BY l.arrival__ ORDER BY {_RANKS[parts['mode']]}) = 1), "
        f"p AS (SELECT a, b FROM m{padded}) "
        f"{items} FROM p LEFT JOIN l0 AS l ON p.a = l.arrival__ LEFT JOIN r0 AS r ON p.b = r.arrival__{where}"
    )


def rows(table: pa.Table) -> Counter[tuple[object, ...]]:
    """Rows as a multiset, columns in order of name, with one NaN and one zero."""
    names = sorted(table.column_names)
    columns = [[_plain(value) for value in table.column(name).to_pylist()] for name in names]
    return Counter(zip(*columns, strict=True))


def _plain(value: object) -> object:
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    return value
