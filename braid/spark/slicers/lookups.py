"""Lookup joins: rows of keyed tables beside the rows of a stage, fetched batch by batch in the workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from braid.core.columns import NOTE
from braid.core.times import now_micros
from braid.engine.notes import KEEP, SEPARATOR
from braid.home.paths import Home
from braid.kernels.join.spec import JoinType
from braid.plan.stages.base import LookupJoin, Plan, Stage
from braid.spark.schemas import arrow_schema
from braid.stores.lookup import LookupStore, enrich

_KEY = "__lookup_key"
"""Prefix of the columns in which the keys to look up travel to the workers."""


def check_tables(home: Home, plan: Plan, stage: Stage) -> None:
    """Raise `StoreError` if a stage looks something up in a table that nobody has made or will make."""
    written = {other.sink.name for other in plan.stages if other.sink.kind.connector.keyed}
    for lookup in stage.lookups:
        if lookup.table not in written:
            LookupStore(home.root).open(lookup.table).close()


def looked_up(frame: DataFrame, lookups: Sequence[LookupJoin], home: str) -> DataFrame:
    """A frame with `__note`, and with the columns of all lookups."""
    for lookup in lookups:
        nothing = (F.lit(None).cast(column.type).alias(column.name) for column in lookup.columns)
        schema = frame.select("*", *nothing).schema
        added = StructType(schema.fields[len(frame.columns) :])
        keys = [F.expr(key.sql).cast(key.type).alias(f"{_KEY}{n}") for n, key in enumerate(lookup.keys)]
        fetch = _Fetch(home, lookup, arrow_schema(added).serialize().to_pybytes())
        frame = frame.select("*", *keys).mapInArrow(fetch, schema)
    return frame


@dataclass(frozen=True)
class _Fetch:
    """What a worker does, for `mapInArrow`; `added` is the schema of the columns that it adds."""

    home: str
    lookup: LookupJoin
    added: bytes

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        added = pa.ipc.read_schema(pa.py_buffer(self.added))
        names = [f"{_KEY}{n}" for n in range(len(self.lookup.keys))]
        for batch in batches:
            # A row that is there only for its note is not looked up.
            kept = pc.starts_with(batch.column(NOTE), KEEP + SEPARATOR)
            noted = pc.fill_null(pc.invert(kept), False)
            rows = batch.filter(pc.invert(noted))
            keys = {key.name: rows.column(n) for n, key in zip(names, self.lookup.keys, strict=True)}
            found = enrich(
                self.home,
                self.lookup.table,
                rows.drop_columns(names),
                keys,
                {column.name: column.column for column in self.lookup.columns},
                inner=self.lookup.type is JoinType.INNER,
                now_us=now_micros(),
            )
            for field in added:
                place = found.schema.get_field_index(field.name)
                found = found.set_column(place, field, found.column(place).cast(field.type))
            yield found
            rest = batch.filter(noted).drop_columns(names)
            if rest.num_rows:
                for field in added:
                    rest = rest.append_column(field, pa.nulls(rest.num_rows, field.type))
                yield rest
