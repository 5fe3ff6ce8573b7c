"""Expressions of a plan in this process: Spark SQL as DuckDB computes it, over Arrow tables."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa
import sqlglot
from sqlglot.errors import SqlglotError

from braid.core.columns import LIVE, TIME
from braid.core.errors import BraidError, ConfigError
from braid.plan.kinds.slicer import SlicerStage
from braid.plan.stages.base import LookupJoin, Projection, Stage

if TYPE_CHECKING:
    import duckdb

ROW = "__row"
"""Number of a row in what a slicer reads."""
LookUp = Callable[[pa.Table, LookupJoin], pa.Table]
"""Puts what is found in a lookup table beside rows, under the names that the stage's expressions use."""

_SIMPLE = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "smallint": pa.int16(),
    "tinyint": pa.int8(),
    "double": pa.float64(),
    "float": pa.float32(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ltz": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_MACROS = (
    "timestamp_micros(x) AS make_timestamptz(CAST(x AS BIGINT))",
    "timestamp_millis(x) AS make_timestamptz(CAST(x AS BIGINT) * 1000)",
    "timestamp_seconds(x) AS make_timestamptz(CAST(round(x * 1000000) AS BIGINT))",
)
"""Functions of Spark that sqlglot leaves as they are."""
_FAILURES = {
    re.compile(
        r"missing argument to repetition|no argument for repetition|missing [)\]]|unexpected \)",
        re.IGNORECASE,
    ): "a text is used as a regular expression, and is none",
    re.compile(r"unknown timezone", re.IGNORECASE): "a text is used as a time zone, and is none",
    re.compile(r"map keys must be unique", re.IGNORECASE): "a map is made with a key twice",
}
"""What neither DuckDB nor Spark computes. Most else that DuckDB refuses is NULL in Spark, without ANSI.
Messages of DuckDB are not passed on: they quote values of rows."""


class NotEvaluatedError(BraidError):
    """DuckDB cannot compute an expression, which says nothing about Spark."""


class FailedRowError(BraidError):
    """An expression fails on a row, as it would in Spark; `row` is its number in the table."""

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None, row: int = 0) -> None:
        super().__init__(what, where=where, hint=hint)
        self.row = row


_local = threading.local()


def connection() -> duckdb.DuckDBPyConnection:
    """This thread's DuckDB, which reads no files and knows nothing but what is registered."""
    found: duckdb.DuckDBPyConnection | None = getattr(_local, "connection", None)
    if found is not None:
        return found
    try:
        import duckdb
    except ImportError:
        raise ConfigError(
            "expressions are computed by DuckDB, which is not installed",
            hint="pip install 'braid-streams[service]'",
        ) from None
    # DuckDB 2.0.0 takes `LEFT JOIN ... WHERE right.x IS NULL` with inequalities only for another join than it
    # is, and gives too many rows.
    found = duckdb.connect(config={"threads": 1, "disabled_optimizers": "outer_join_simplification"})
    found.execute("SET TimeZone = 'UTC'")
    # As Spark does without ANSI, which applications run without.
    found.execute("SET error_on_division_by_zero = false")
    for macro in _MACROS:
        found.execute(f"CREATE MACRO {macro}")
    found.execute("SET enable_external_access = false")
    _local.connection = found
    return found


@lru_cache(4096)
def to_duckdb(spark_sql: str) -> str:
    """An expression of Spark SQL as DuckDB has it."""
    try:
        return sqlglot.parse_one(spark_sql, read="spark").sql(dialect="duckdb")
    except SqlglotError as error:
        raise NotEvaluatedError(f"{spark_sql} cannot be translated: {error}") from None


def arrow_type(spark_type: str) -> pa.DataType:
    """The Arrow type of a Spark SQL type."""
    if spark_type in _SIMPLE:
        return _SIMPLE[spark_type]
    if spark_type.startswith("decimal("):
        precision, scale = spark_type.removeprefix("decimal(").removesuffix(")").split(",")
        return pa.decimal128(int(precision), int(scale))
    if spark_type.startswith("array<"):
        return pa.list_(arrow_type(spark_type.removeprefix("array<").removesuffix(">")))
    raise NotEvaluatedError(f"values of type {spark_type} are not computed outside of Spark")


def evaluate(
    table: pa.Table, columns: Sequence[Projection], where: str | None, extra: Sequence[str] = ()
) -> pa.Table:
    """Select columns from the rows that pass a filter, in the types that the plan says.

    `extra` are further columns, as DuckDB has them.
    """
    items = [f'({to_duckdb(column.sql)}) AS "{column.name}"' for column in columns]
    filtered = f" WHERE {to_duckdb(where)}" if where else ""
    result = query(f"SELECT {', '.join([*items, *extra])} FROM rows_in{filtered}", table)
    for position, column in enumerate(columns):
        field = pa.field(column.name, arrow_type(column.type))
        result = result.set_column(position, field, _cast(result.column(position), field))
    return result


def sliced(stage: SlicerStage, rows: pa.Table, look_up: LookUp, extra: Sequence[str] = ()) -> pa.Table:
    """What a slicer makes of typed rows: for a join with keys, `__time` and `__live`, without their hash."""
    rows = with_lookups(stage, rows, look_up)
    columns, more = list(stage.columns), list(extra)
    join = stage.join_input
    if join is not None:
        columns += join.keys
        time = to_duckdb(join.time.sql)
        micros = time if join.time.type in ("bigint", "int", "long") else f"epoch_us({time})"
        more.append(f"CAST({micros} AS BIGINT) AS {TIME}")
        if join.live is not None:
            more.append(f"coalesce({to_duckdb(join.live)}, false) AS {LIVE}")
    return evaluate(rows, columns, stage.filter, more)


def with_lookups(stage: Stage, rows: pa.Table, look_up: LookUp) -> pa.Table:
    """Rows with all that a stage looks up."""
    for lookup in stage.lookups:
        rows = look_up(rows, lookup)
    return rows


def query(sql: str, table: pa.Table) -> pa.Table:
    """The answer to a query over a table that it calls `rows_in`."""
    import duckdb

    found = connection()
    found.register("rows_in", table)
    try:
        return found.sql(sql).to_arrow_table()
    except duckdb.Error as error:
        text = str(error)
        failure = next((words for known, words in _FAILURES.items() if known.search(text)), None)
        if failure is None:
            raise NotEvaluatedError(f"DuckDB cannot compute an expression: {_kind(error)}") from None
        raise FailedRowError(failure, row=_first_failing(sql, table)) from None
    finally:
        found.unregister("rows_in")


def _cast(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    try:
        return column.cast(field.type)
    except pa.ArrowException:
        raise NotEvaluatedError(
            f"column {field.name!r}: DuckDB has another type for it, {column.type}, not {field.type}"
        ) from None


def _kind(error: duckdb.Error) -> str:
    """What an error is about, without values of rows; names of functions are the program's."""
    text = str(error).partition("\n")[0]
    return (
        text[:200] if text.startswith(("Catalog Error", "Binder Error")) else text.partition(":")[0].lower()
    )


def _first_failing(sql: str, table: pa.Table) -> int:
    """The number of the first row that a query fails for."""
    low, high = 0, table.num_rows
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _fails(sql, table.slice(low, middle - low)) else (middle, high)
    return low


def _fails(sql: str, table: pa.Table) -> bool:
    import duckdb

    found = connection()
    found.register("rows_in", table)
    try:
        found.sql(sql).to_arrow_table()
    except duckdb.Error:
        return True
    return False
