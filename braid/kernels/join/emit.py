"""Building output rows: pairs gathered from two stores, and single rows padded with NULLs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from braid.core.errors import SchemaError
from braid.core.side import Side
from braid.kernels.arrays import Ints
from braid.kernels.blocks import BlockStore
from braid.kernels.join.spec import AnySpec, JoinSpec

DISTANCE_BUCKETS = 64


class Emitter:
    """Collects the output of one step."""

    def __init__(self, spec: JoinSpec, schemas: Mapping[Side, pa.Schema]) -> None:
        self._spec = spec
        self.schema = output_schema(spec, schemas)
        self._batches: list[pa.RecordBatch] = []
        self.distances = np.zeros((2, DISTANCE_BUCKETS), np.int64)
        """Matches by log2 of their distance in microseconds to the lower and to the upper bound."""

    def pairs(self, left: BlockStore, left_rows: Ints, right: BlockStore, right_rows: Ints) -> None:
        """Emit matched pairs."""
        found = {
            Side.LEFT: left.gather(self._columns(Side.LEFT), left_rows),
            Side.RIGHT: right.gather(self._columns(Side.RIGHT), right_rows),
        }
        self._append([found[c.side][c.column] for c in self._spec.output], len(left_rows))

    def padded(self, side: Side, store: BlockStore, rows: Ints) -> None:
        """Emit unmatched rows of `side`, with NULLs for the other one."""
        found = store.gather(self._columns(side), rows)
        self._append(
            [
                found[column.column] if column.side is side else pa.nulls(len(rows), field.type)
                for column, field in zip(self._spec.output, self.schema, strict=True)
            ],
            len(rows),
        )

    def measure(self, left_times: Ints, right_times: Ints) -> None:
        """Note how close matches come to the bounds, for window advice."""
        ahead = right_times - left_times
        for i, distance in enumerate((ahead - self._spec.lower, self._spec.upper - ahead)):
            # A match that was chosen before the window was narrowed may be outside of it.
            bucket = np.log2(np.maximum(distance, 0) + 1.0).astype(np.int64)
            self.distances[i] += np.bincount(bucket, minlength=DISTANCE_BUCKETS)[:DISTANCE_BUCKETS]

    def table(self) -> pa.Table:
        """Everything emitted."""
        return pa.Table.from_batches(self._batches, self.schema)

    def _columns(self, side: Side) -> list[str]:
        """What is emitted of a side."""
        return [column.column for column in self._spec.output if column.side is side]

    def _append(self, arrays: list[pa.Array], rows: int) -> None:
        if rows:
            self._batches.append(pa.RecordBatch.from_arrays(arrays, schema=self.schema))


def output_schema(spec: AnySpec, schemas: Mapping[Side, pa.Schema]) -> pa.Schema:
    """Names and types of the join's output columns."""
    for column in spec.output:
        if column.column not in schemas[column.side].names:
            raise SchemaError(
                f"the join's {column.side} input has no column {column.column!r}",
                hint=f"existing columns: {', '.join(schemas[column.side].names)}",
            )
    return pa.schema([pa.field(c.name, schemas[c.side].field(c.column).type) for c in spec.output])
