"""Categories as sinks: rows become blocks of the log, one commit per micro-batch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamWriter
from pyspark.sql.types import StructType

from braid.core.counters import Counters
from braid.core.errors import LogError
from braid.engine.chunk_order import chunk_order
from braid.engine.output_watermarks import OutputWatermarks, read_watermarks
from braid.eventtime.arrival import ChunkOrder
from braid.log.category import Category
from braid.log.log import Log
from braid.log.records import FileEntry
from braid.log.shared import fresh
from braid.log.writer import write_file
from braid.spark.blobs import decode
from braid.spark.sinks.base import NotedWriter, SinkConfig
from braid.spark.slicers.arrow_files import ArrowSlicer


@dataclass(frozen=True, kw_only=True)
class BlocksConfig(SinkConfig):
    """What the sink of a category needs to know.

    Parameters
    ----------
    category
        The category.
    chunk_rows
        Most rows per chunk.
    watermarks
        Where the watermarks of what is written come from; None if there are none.
    copies
        Columns that are the same as another one, and are added to the rows before they are stored.
    slicer
        What an `ArrowSlicer` does with the files whose names come instead of rows.
    encoded
        Whether batches come as values of rows, with the columns that are stored.
    order
        How the chunks of a commit are put in order.
    """

    category: str
    chunk_rows: int
    watermarks: OutputWatermarks | None = None
    copies: dict[str, str] = field(default_factory=dict)
    slicer: dict[str, object] | None = None
    encoded: bool = False
    order: str = ChunkOrder.MEDIAN

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read back what `to_json` gave."""
        value = json.loads(text)
        return cls(**{**value, "watermarks": read_watermarks(value["watermarks"])})


class BlockSink(DataSource):
    """Writes to a category. Option: `config`."""

    @classmethod
    def name(cls) -> str:
        """Name for `writeStream.format`."""
        return "braid_blocks"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """The writer of one streaming query."""
        return BlockWriter(BlocksConfig.from_json(self.options["config"]))


class BlockWriter(NotedWriter[BlocksConfig]):
    """Stores rows as blocks of a category."""

    def parts(self, batches: Iterator[pa.RecordBatch]) -> Iterable[Iterator[pa.RecordBatch]]:
        """The rows as they come, or those of each file that is named."""
        slicer = self._config.slicer
        if slicer is not None:
            return ArrowSlicer.from_dict(slicer).files(batches)
        return [decode(batches) if self._config.encoded else batches]

    def store(self, batches: Iterator[pa.RecordBatch]) -> str:
        """Write one data file."""
        config = self._config
        copied = (_with_copies(batch, config.copies) for batch in batches)
        return write_file(self.category(), config.stage, copied, config.chunk_rows).to_json()

    def category(self) -> Category:
        """The category, with the columns that are written."""
        return fresh(self._config.root, self._config.category)

    def publish(self, stored: Sequence[str], commit: int, counts: Counters) -> None:
        """Publish one commit; one that exists must be our own."""
        config = self._config
        entries = [FileEntry.from_json(text) for text in stored]
        category = Log(config.root).open(config.category)
        marks = self._watermarks(counts)
        won = category.publish(commit, entries, marks, order=chunk_order(entries, ChunkOrder(config.order)))
        if not won and commit >= category.first:
            there = category.reader().commit(commit)
            if not all(name.startswith(f"{config.stage}-") for name in there.files):
                raise LogError(
                    f"commit {commit} was written by somebody else",
                    where=f"category {config.category}",
                    hint="a category has one writer: give this table a category of its own",
                )
            # What counts is what is there: a lookup may have found something else this time.
            entries = list(there.files.values())
        counts.rows_out = sum(entry.rows for entry in entries)
        counts.bytes_out = sum(entry.size for entry in entries)
        counts.shard_rows = _shard_rows(entries, category.shards)
        if config.slicer is not None:
            counts.files_in = len(stored)

    def _watermarks(self, counts: Counters) -> dict[str, int]:
        """Below which nothing more comes, per time column."""
        config = self._config
        if config.watermarks is None:
            return {}
        return config.watermarks.of(config.root, self.read_up_to().offset, counts)


def _with_copies(batch: pa.RecordBatch, copies: Mapping[str, str]) -> pa.RecordBatch:
    """A batch with columns that are the same as others, which the JVM therefore has not sent."""
    for name, original in copies.items():
        batch = batch.append_column(name, batch.column(original))
    return batch


def _shard_rows(entries: Sequence[FileEntry], shards: int) -> list[int]:
    """Rows by shard; files of a repeated micro-batch may have more shards than there are now."""
    blocks = [block for entry in entries for chunk in entry.chunks for block in chunk.blocks]
    rows = [0] * max(shards, *(block.shard + 1 for block in blocks), 0)
    for block in blocks:
        rows[block.shard] += block.rows
    return rows
