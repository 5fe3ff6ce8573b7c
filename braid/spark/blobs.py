"""Batches as values: results of an operator on their way through Java, which need not know their columns."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

BLOBS = "data binary"
"""Schema of rows that are one Arrow stream each, of a bounded number of rows."""


def encode(batch: pa.RecordBatch) -> bytes:
    """A batch as a value."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(memoryview(sink.getvalue()))


def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches that are values of others; also for `mapInArrow`."""
    for batch in batches:
        for blob in batch.column(0):
            with pa.ipc.open_stream(blob.as_buffer()) as stream:
                yield from stream
