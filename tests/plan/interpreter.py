"""Runs the stages of a plan in process: expressions in DuckDB, joins in the kernels, categories in memory."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import cache

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import sqlglot

from braid.core.columns import HASH, LIVE, TIME
from braid.core.config import AppConfig
from braid.core.positions import Position
from braid.core.side import Side
from braid.core.times import MAX_TIME, MIN_TIME
from braid.kernels.arrays import Ints
from braid.kernels.join.kernel import open_join
from braid.kernels.join.step import two_sided
from braid.plan.kinds.join import JoinStage
from braid.plan.kinds.slicer import SlicerStage
from braid.plan.physical.kernel_spec import join_spec
from braid.plan.stages.base import LookupJoin, Plan, Projection

Rows = Mapping[str, pa.Table]
"""Tables by the name of their category, topic, glob or lookup table."""


@cache
def connection() -> duckdb.DuckDBPyConnection:
    # DuckDB 2.0.0 takes `LEFT JOIN ... WHERE right.x IS NULL` with inequalities only for another join than it
    # is, and gives too many rows.
    found = duckdb.connect(config={"threads": 1, "disabled_optimizers": "outer_join_simplification"})
    found.execute("SET TimeZone = 'UTC'")
    return found


@cache
def to_duckdb(spark_sql: str) -> str:
    return sqlglot.parse_one(spark_sql, read="spark").sql(dialect="duckdb")


def arrow_type(spark_type: str) -> pa.DataType:
    simple = {
        "string": pa.string(),
        "bigint": pa.int64(),
        "int": pa.int32(),
        "smallint": pa.int16(),
        "double": pa.float64(),
        "float": pa.float32(),
        "boolean": pa.bool_(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", tz="UTC"),
    }
    if spark_type.startswith("decimal"):
        precision, scale = spark_type.removeprefix("decimal(").removesuffix(")").split(",")
        return pa.decimal128(int(precision), int(scale))
    return simple[spark_type]


def evaluate(table: pa.Table, columns: list[Projection], where: str | None, extra: str = "") -> pa.Table:
    """Select the columns from the rows that pass the filter, in the types that the plan says."""
    items = ", ".join(f'({to_duckdb(c.sql)}) AS "{c.name}"' for c in columns)
    filtered = f" WHERE {to_duckdb(where)}" if where else ""
    found = connection()
    found.register("rows_in", table)
    result = found.sql(f"SELECT {items}{extra} FROM rows_in{filtered}").to_arrow_table()
    for position, column in enumerate(columns):
        field = pa.field(column.name, arrow_type(column.type))
        result = result.set_column(position, field, result.column(position).cast(field.type))
    return result


def look_up(table: pa.Table, lookup: LookupJoin, stored: pa.Table) -> pa.Table:
    """The rows with what is found for them, under the names that the stage's expressions use."""
    found = connection()
    found.register("rows_in", table)
    found.register("looked_up", stored)
    columns = "".join(f', looked_up."{c.column}" AS "{c.name}"' for c in lookup.columns)
    keys = " AND ".join(f'looked_up."{key.name}" = ({to_duckdb(key.sql)})' for key in lookup.keys)
    return found.sql(
        f"SELECT rows_in.*{columns} FROM rows_in {lookup.type.value.upper()} JOIN looked_up ON {keys}"
    ).to_arrow_table()


def slice_rows(stage: SlicerStage, table: pa.Table) -> pa.Table:
    columns, extra = list(stage.columns), ""
    join = stage.join_input
    if join is not None:
        columns += join.keys
        extra = f", CAST(epoch_us({to_duckdb(join.time.sql)}) AS BIGINT) AS {TIME}"
        if join.live is not None:
            extra += f", coalesce({to_duckdb(join.live)}, false) AS {LIVE}"
    result = evaluate(table, columns, stage.filter, extra)
    if join is not None:
        # A hash with many collisions, so that only exact key equality can give the right answer.
        keys = ", ".join(f"CAST({key.name} AS VARCHAR)" for key in join.keys)
        found = connection()
        found.register("sliced", result)
        hashed = found.sql(f"SELECT CAST(hash({keys or '0'}) % 5 AS BIGINT) - 2 AS h FROM sliced")
        result = result.append_column(HASH, hashed.to_arrow_table().column("h"))
    return result


class Blocks:
    """Two categories, cut into blocks."""

    def __init__(self, tables: dict[Side, pa.Table], rng: random.Random) -> None:
        self._tables = tables
        self.blocks: dict[Side, dict[Position, pa.RecordBatch]] = {side: {} for side in Side}
        for side, table in tables.items():
            start = 0
            while start < table.num_rows:
                size = rng.randint(1, 8)
                part = table.slice(start, size)
                order = pc.sort_indices(
                    part.append_column("n", pa.array(range(part.num_rows))),
                    sort_keys=[(HASH, "ascending"), ("n", "ascending")],
                )
                block = part.take(order).combine_chunks().to_batches()[0]
                self.blocks[side][Position(len(self.blocks[side]), 0)] = block
                start += size

    def schema(self, side: Side) -> pa.Schema:
        return self._tables[side].schema

    def read(self, side: Side, block: Position) -> pa.RecordBatch:
        return self.blocks[side][block]

    def overlapping(self, side: Side, until: Position, low: int, high: int) -> list[Position]:
        return [block for block in self.blocks[side] if block <= until]

    def find(
        self, side: Side, until: Position, hashes: Ints, low: Ints, high: Ints
    ) -> list[tuple[Position, Ints | None]]:
        return [(block, None) for block in self.overlapping(side, until, int(low.min()), int(high.max()))]

    def forgotten(self, side: Side) -> int:
        return MIN_TIME


def join_rows(stage: JoinStage, left: pa.Table, right: pa.Table, rng: random.Random) -> pa.Table:
    blocks = Blocks({Side.LEFT: left, Side.RIGHT: right}, rng)
    waiting = {side: list(blocks.blocks[side]) for side in Side}
    join = open_join(join_spec(stage, AppConfig()), blocks)
    results = []
    while any(waiting.values()):
        admitted = {side: [waiting[side].pop(0) for _ in waiting[side][: rng.randint(0, 2)]] for side in Side}
        results.append(
            join.step(two_sided(admitted[Side.LEFT], admitted[Side.RIGHT], MIN_TIME, MIN_TIME)).rows
        )
    results.append(join.step(two_sided([], [], MAX_TIME, MAX_TIME)).rows)
    return pa.concat_tables(results)


def run(plan: Plan, inputs: Rows, seed: int = 0) -> dict[str, pa.Table]:
    """What every sink has received once the inputs are drained, by the sink's name."""
    rng = random.Random(seed)
    stored: dict[str, pa.Table] = dict(inputs)
    for stage in plan.stages:
        if isinstance(stage, SlicerStage):
            rows = stored[stage.source.name]
            for lookup in stage.lookups:
                rows = look_up(rows, lookup, stored[lookup.table])
            stored[stage.sink.name] = slice_rows(stage, rows)
        else:
            joined = join_rows(stage, stored[stage.left], stored[stage.right], rng)
            for lookup in stage.lookups:
                joined = look_up(joined, lookup, stored[lookup.table])
            stored[stage.sink.name] = evaluate(joined, list(stage.columns), stage.filter)
    return {name: table for name, table in stored.items() if name not in inputs}
