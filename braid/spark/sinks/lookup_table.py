"""Lookup tables as sinks: the rows of a micro-batch are upserted by key, all or nothing, and once."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamWriter
from pyspark.sql.types import StructType

from braid.core.counters import Counters
from braid.core.times import now_micros
from braid.plan.physical.targets import LookupTarget
from braid.spark.schemas import arrow_schema
from braid.spark.sinks.base import NotedWriter, SinkConfig
from braid.stores.lookup import LookupStore, apply


@dataclass(frozen=True, kw_only=True)
class LookupConfig(SinkConfig):
    """What the sink of a lookup table needs to know.

    Parameters
    ----------
    home, table
        The home that it belongs to, and its name.
    writer
        The name by which the table knows who writes.
    staging
        A folder for files that are yet to be upserted.
    time
        The column that says which row of a key is newest.
    """

    home: str
    table: str
    writer: str
    staging: str
    time: str | None = None


class LookupTableSink(DataSource):
    """Writes to a lookup table. Option: `config`."""

    @classmethod
    def name(cls) -> str:
        """Name for `writeStream.format`."""
        return "braid_laser"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """The writer of one streaming query."""
        return LookupTableWriter(LookupConfig.from_json(self.options["config"]))


class LookupTableWriter(NotedWriter[LookupConfig]):
    """Tasks put rows into files of their own; the driver applies them, since a table has one writer."""

    def store(self, batches: Iterator[pa.RecordBatch]) -> str:
        """Write one staged file, if there are rows."""
        path = Path(self._config.staging) / f"{uuid.uuid4().hex}.arrow"
        rows = 0
        writer: pa.ipc.RecordBatchFileWriter | None = None
        try:
            for batch in batches:
                if writer is None:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    writer = pa.ipc.new_file(str(path), batch.schema)
                writer.write_batch(batch)
                rows += batch.num_rows
        finally:
            if writer is not None:
                writer.close()
        return json.dumps({"rows": rows, "file": None if writer is None else path.name})

    def publish(self, stored: Sequence[str], commit: int, counts: Counters) -> None:
        """Upsert what the tasks have stored; the table knows which micro-batches it has."""
        config = self._config
        parts = [json.loads(text) for text in stored]
        files = [Path(config.staging) / part["file"] for part in parts if part["file"]]
        tables = [pa.ipc.open_file(pa.memory_map(str(file))).read_all() for file in files]
        done = apply(
            config.home,
            config.table,
            pa.concat_tables(tables) if tables else [],
            writer=config.writer,
            batch_id=commit,
            now_us=now_micros(),
            time_column=config.time,
        )
        for file in files:
            file.unlink()
        counts.keys_written = done.written
        counts.superseded = done.superseded
        counts.null_keys = done.null_keys
        counts.rows_out = done.written + done.superseded + done.null_keys


def create_table(home: str, target: LookupTarget, schema: StructType) -> None:
    """The table of a sink, made on first use; one that exists gets new columns."""
    columns = arrow_schema(schema)
    LookupStore(home).create(
        target.name,
        pa.schema([columns.field(name) for name in target.keys]),
        pa.schema([columns.field(name) for name in target.values]),
        target.ttl,
    )


def last_upsert(home: str, table: str, writer: str) -> int:
    """The number of the last micro-batch that a writer has upserted; -1 if there is none."""
    store = LookupStore(home)
    if not store.has(table):
        return -1
    with store.open(table) as opened:
        last = opened.writer().last_batch(writer)
    return -1 if last is None else last
