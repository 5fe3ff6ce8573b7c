"""Runs the stages of a plan in process: expressions in DuckDB, joins in the kernels, categories in memory."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from braid.core.columns import HASH
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
from braid.plan.stages.base import LookupJoin, Plan
from braid.testing.expressions import LookUp, connection, evaluate, sliced, to_duckdb, with_lookups

Rows = Mapping[str, pa.Table]
"""Tables by the name of their category, topic, glob or lookup table."""


def look_up_in(stored: Rows) -> LookUp:
    """Finds rows of tables that are there as they are."""

    def look_up(table: pa.Table, lookup: LookupJoin) -> pa.Table:
        found = connection()
        found.register("looked_from", table)
        found.register("looked_up", stored[lookup.table])
        columns = "".join(f', looked_up."{c.column}" AS "{c.name}"' for c in lookup.columns)
        keys = " AND ".join(f'looked_up."{key.name}" = ({to_duckdb(key.sql)})' for key in lookup.keys)
        return found.sql(
            f"SELECT looked_from.*{columns} "
            f"FROM looked_from {lookup.type.value.upper()} JOIN looked_up ON {keys}"
        ).to_arrow_table()

    return look_up


def slice_rows(stage: SlicerStage, table: pa.Table, look_up: LookUp) -> pa.Table:
    result = sliced(stage, table, look_up)
    join = stage.join_input
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
            stored[stage.sink.name] = slice_rows(stage, rows, look_up_in(stored))
        else:
            joined = join_rows(stage, stored[stage.left], stored[stage.right], rng)
            joined = with_lookups(stage, joined, look_up_in(stored))
            stored[stage.sink.name] = evaluate(joined, list(stage.columns), stage.filter)
    return {name: table for name, table in stored.items() if name not in inputs}
