"""Tables of Parquet files by event date and hour, as Hive, Spark and DuckDB read them."""

from __future__ import annotations

import json
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
from braid.home.table_commits import STAGING, Moves, TableCommits
from braid.log import durable
from braid.spark.sinks.base import NotedWriter, SinkConfig

_NO_TIME = "dt=__HIVE_DEFAULT_PARTITION__/hour=__HIVE_DEFAULT_PARTITION__"


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
        staging = Path(self._config.folder) / STAGING
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
            durable.sync(str(path))
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
        named = TableCommits(root).publish(self._config.stage, commit, moves)
        if named == moves:
            self._move(moves)
            counts.rows_out = sum(part["rows"] for part in parts)
            counts.files_out = len(moves)
            return
        for name in moves:
            durable.remove(str(root / STAGING / name))
        if named is None:
            targets = list(root.glob(f"*/*/{self._config.stage}-{commit:08d}-*.parquet"))
        else:
            self._move(named)
            targets = [root / target for target in named.values()]
        # What counts is what is there: a lookup may have found something else this time.
        counts.rows_out = sum(pq.read_metadata(target).num_rows for target in targets if target.exists())
        counts.files_out = len(targets)

    def _move(self, moves: Moves) -> None:
        """Move staged files into the table, as far as that has not been done."""
        root = Path(self._config.folder)
        for name, target in moves.items():
            staged, final = root / STAGING / name, root / target
            if staged.exists():
                final.parent.mkdir(parents=True, exist_ok=True)
                durable.replace(str(staged), str(final))
                durable.sync(str(final.parent))

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
    return TableCommits(folder).last(stage)


def _partition(hour: int) -> str:
    if hour < -(10**9):
        return _NO_TIME
    start = np.datetime64(0, "h") + np.timedelta64(hour, "h")
    day, _, clock = str(start).partition("T")
    return f"dt={day}/hour={clock[:2]}"
