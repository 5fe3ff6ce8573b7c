"""Slicers that need no Catalyst: Parquet files are read, hashed and split as Arrow batches.

Spark still finds the files, remembers which it has read, and hands their names to tasks; rows never become
JVM rows. Everything comes out as from a slicer in Catalyst, to the bit of the hash.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from braid.core.columns import FILE_CLOCK, FILE_PATH, HASH, KEY, NOTE, TIME
from braid.core.errors import LogError, SchemaError
from braid.core.json_rows import json_rows
from braid.engine.expressions import compile_column
from braid.engine.notes import KEEP, note_array
from braid.eventtime.validity import INVALID_TIME, Validity, classify, to_micros, words_of
from braid.log.hashing import hash_rows
from braid.plan.physical.slicing import may_read_whole_files
from braid.spark.paths import located

if TYPE_CHECKING:
    from braid.plan.kinds.slicer import SlicerStage

_ROWS = 65_536


@dataclass(frozen=True)
class ArrowSlicer:
    """What a task does with a file; travels as JSON.

    Parameters
    ----------
    columns
        Expressions of what is stored, by name.
    keys
        Expressions of the keys.
    time
        The event-time column of the files.
    source, target
        Columns of the files and of what is stored: schemas in Arrow's IPC form, hexadecimal.
    max_future
        How far event times may be ahead of the clock.
    """

    columns: dict[str, str]
    keys: tuple[str, ...]
    time: str
    source: str
    target: str
    max_future: int

    @classmethod
    def plan(
        cls, stage: SlicerStage, stored: pa.Schema, target: pa.Schema, max_future: int
    ) -> ArrowSlicer | None:
        """The slicer of a stage that reads files with the schema `stored`; None if it needs Catalyst."""
        extra = stage.join_input
        if extra is None or not may_read_whole_files(stage):
            return None
        if stored.field(extra.time.sql).type != _MICROS:
            return None
        columns = {column.name: column.sql for column in stage.columns}
        keys = {f"{KEY}{number}": key.sql for number, key in enumerate(extra.keys)}
        for name, sql in {**columns, **keys}.items():
            if compile_column(sql, stored, target.field(name).type) is None:
                return None
        return cls(columns, tuple(keys.values()), extra.time.sql, _pack(stored), _pack(target), max_future)

    def to_dict(self) -> dict[str, object]:
        """The slicer as JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, value: Mapping[str, object]) -> ArrowSlicer:
        """Read back what `to_dict` gave."""
        keys = value["keys"]
        assert isinstance(keys, list | tuple)
        return cls(**{**value, "keys": tuple(keys)})  # type: ignore[arg-type]

    def files(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Iterator[pa.RecordBatch]]:
        """The rows of each file that Spark names, with hash, time, keys and notes.

        Files are kept apart, so that no chunk mixes two that may be hours apart in event time.
        """
        for batch in batches:
            paths, clocks = batch.column(FILE_PATH).to_pylist(), batch.column(FILE_CLOCK).to_pylist()
            for path, now in zip(paths, clocks, strict=True):
                yield self._rows(path, now)

    def _rows(self, path: str, now: int) -> Iterator[pa.RecordBatch]:
        source, target = _unpack(self.source), _unpack(self.target)
        names = [f"{KEY}{number}" for number in range(len(self.keys))]
        expressions = {**self.columns, **dict(zip(names, self.keys, strict=True))}
        compiled = {
            name: compile_column(sql, source, target.field(name).type) for name, sql in expressions.items()
        }
        for rows in _read(path, source):
            values = {name: function(rows) for name, function in compiled.items() if function}
            values[HASH] = pa.array(hash_rows([values[name] for name in names]))
            values[TIME], values[NOTE] = self._times(rows, now)
            yield pa.RecordBatch.from_pydict(values)

    def _times(self, rows: pa.RecordBatch, now: int) -> tuple[pa.Array, pa.Array]:
        """Event times in microseconds, NULL where they are not valid, and notes on those rows."""
        times = rows.column(self.time).cast(pa.int64())
        kinds = classify(times, now, self.max_future)
        if not kinds.any():
            return times, pa.nulls(len(times), pa.string())
        bad = pa.array(kinds != Validity.VALID)
        why = words_of(kinds[kinds != Validity.VALID])
        texts = note_array(KEEP, pa.repeat(INVALID_TIME, len(why)), why, json_rows(rows.filter(bad)))
        notes = pc.replace_with_mask(pa.nulls(len(times), pa.string()), bad, texts)
        return pc.if_else(bad, None, times), notes


_MICROS = pa.timestamp("us", tz="UTC")


def _read(path: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches of a file with the columns and types of `schema`."""
    filesystem, where = located(path)
    try:
        with filesystem.open_input_file(where) as file:
            if not file.size():
                return  # Spark notes empty files, and passes over them
            parquet = pq.ParquetFile(file)
            missing = [name for name in schema.names if name not in parquet.schema_arrow.names]
            if missing:
                raise SchemaError(
                    f"column {missing[0]!r} does not exist",
                    where=path,
                    hint=f"other files have it; existing columns: {', '.join(parquet.schema_arrow.names)}",
                )
            for batch in parquet.iter_batches(batch_size=_ROWS, columns=schema.names):
                arrays = [_as(batch.column(field.name), field.type) for field in schema]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
    except (OSError, pa.ArrowException) as error:
        raise LogError(
            f"cannot read the file: {error}",
            where=path,
            hint="it must be a complete Parquet file, with columns that fit the types of the first one's",
        ) from error


def _as(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column with the type of the first file's."""
    if pa.types.is_timestamp(column.type) and pa.types.is_timestamp(kind):
        column = to_micros(column)
    return column if column.type == kind else column.cast(kind)


def _pack(schema: pa.Schema) -> str:
    return str(schema.serialize().to_pybytes().hex())


def _unpack(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(text)))
