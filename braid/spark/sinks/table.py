"""Tables of Parquet files by event date and hour, as Hive, Spark and DuckDB read them."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceStreamWriter
from pyspark.sql.types import StructType

from braid.core.counters import Counters
from braid.core.times import HOUR
from braid.spark.sinks.base import NotedWriter, SinkConfig

_NO_TIME = "dt=__HIVE_DEFAULT_PARTITION__/hour=__HIVE_DEFAULT_PARTITION__"
_STAGING = "_staging"
"""Folder of files that no commit names yet; no pattern for Parquet files matches in it."""
_COMMITS = "_commits"


@dataclass(frozen=True, kw_only=True)
class TableConfig(SinkConfig):
    """What the sink of a table needs to know: its folder, and the column that it is partitioned by."""

    folder: str
    time: str | None = None


class TableSink(DataSource):
    """Writes to a table. Option: `config`."""

    @classmethod
    def name(cls) -> str:
        """Name for `writeStream.format`."""
        return "braid_table"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """The writer of one streaming query."""
        return TableWriter(TableConfig.from_json(self.options["config"]))


class TableWriter(NotedWriter[TableConfig]):
    """Stores rows as Parquet files; a commit file, created once, says which of them are the table's."""

    def store(self, batches: Iterator[pa.RecordBatch]) -> str:
        """Write one staged file per event hour."""
        staging = Path(self._config.folder) / _STAGING
        files: dict[str, tuple[Path, pq.ParquetWriter]] = {}
        rows = 0
        try:
            for batch in batches:
                rows += batch.num_rows
                for partition, part in self._split(batch):
                    if partition not in files:
                        staging.mkdir(parents=True, exist_ok=True)
                        path = staging / f"{uuid.uuid4().hex}.tmp"
                        files[partition] = path, pq.ParquetWriter(path, part.schema, compression="zstd")
                    files[partition][1].write_batch(part)
        finally:
            for _, writer in files.values():
                writer.close()
        for path, _ in files.values():
            _flush(path)
        return json.dumps({"rows": rows, "files": {name: path.name for name, (path, _) in files.items()}})

    def publish(self, stored: Sequence[str], commit: int, counts: Counters) -> None:
        """Name the files of a micro-batch in a commit file, then move them into the table."""
        root = Path(self._config.folder)
        parts = [json.loads(text) for text in stored]
        moves = {
            name: f"{partition}/{self._config.stage}-{commit:08d}-{task:05d}.parquet"
            for task, part in enumerate(parts)
            for partition, name in part["files"].items()
        }
        record = root / _COMMITS / f"{self._config.stage}-{commit:08d}.json"
        won = _create(record, moves)
        if not won:
            for name in moves:
                (root / _STAGING / name).unlink(missing_ok=True)
            moves = json.loads(record.read_text())
        for name, target in moves.items():
            staged, final = root / _STAGING / name, root / target
            if staged.exists():
                final.parent.mkdir(parents=True, exist_ok=True)
                staged.replace(final)
                _flush(final.parent)
        # What counts is what is there: a lookup may have found something else this time.
        rows = (part["rows"] for part in parts)
        finals = (root / target for target in moves.values())
        there = (pq.read_metadata(final).num_rows for final in finals if final.exists())
        counts.rows_out = sum(rows if won else there)
        counts.files_out = len(moves)

    def _split(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Rows by partition."""
        if self._config.time is None:
            yield _NO_TIME, batch
            return
        times = batch.column(self._config.time).cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
        hours = pc.fill_null(times, -(2**62)).to_numpy() // HOUR
        for hour in np.unique(hours).tolist():
            yield _partition(hour), batch.filter(pa.array(hours == hour))


def last_commit(folder: Path, stage: str) -> int:
    """The last commit of a stage that a table has; -1 if it has none."""
    found = (folder / _COMMITS).glob(f"{stage}-*.json")
    return max((int(path.stem.rpartition("-")[2]) for path in found), default=-1)


def _partition(hour: int) -> str:
    if hour < -(10**9):
        return _NO_TIME
    start = np.datetime64(0, "h") + np.timedelta64(hour, "h")
    day, _, clock = str(start).partition("T")
    return f"dt={day}/hour={clock[:2]}"


def _create(path: Path, value: object) -> bool:
    """Write a file that did not exist, whole; False if it does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{uuid.uuid4().hex}.tmp")
    fresh.write_text(json.dumps(value))
    _flush(fresh)
    try:
        os.link(fresh, path)
    except FileExistsError:
        return False
    finally:
        fresh.unlink()
    _flush(path.parent)
    return True


def _flush(path: Path) -> None:
    """Make a file or folder durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
