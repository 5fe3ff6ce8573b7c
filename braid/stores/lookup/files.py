"""Loading lookup tables from Parquet, CSV and JSON lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, json, parquet

from braid.core.errors import SchemaError, StoreError
from braid.stores.lookup.incoming import Rows
from braid.stores.lookup.rows import check_columns
from braid.stores.lookup.settings import Settings, declare, evolve
from braid.stores.lookup.store import LookupStore

WRITER = "braid lookup load"
"""The writer that batches of loaded files are counted under."""
_BATCH_ROWS = 65_536
_PARQUET = (".parquet", ".pq")
_CSV = (".csv", ".csv.gz")
_JSON = (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz")


@dataclass(frozen=True)
class Loaded:
    """What loading a file did."""

    rows: int
    """Keys that were written."""
    replaced: bool
    """Whether the table is now what the file holds, and nothing else."""


def load_file(
    store: LookupStore,
    path: str | Path,
    table: str,
    key: Sequence[str],
    *,
    ttl: int | None = None,
    replace: bool = False,
    now_us: int,
) -> Loaded:
    """Load a file into a table, which is made if it does not exist; of rows with one key, the last counts.

    Parameters
    ----------
    store, table
        Where to.
    path
        A file whose name ends with `.parquet`, `.csv` or `.jsonl`. Types of CSV columns are guessed, unless
        the table has them; what would not be the same any more as a number or a time stays text: leading
        zeros, and keys that would become equal.
    key
        Key columns; all others are values.
    ttl
        Microseconds after which a row that was not written again is gone. None leaves it as it is.
    replace
        Whether rows that are not in the file go away; all at once, when everything is loaded. Columns and
        types may change, too.
    now_us
        The wall clock, from which the rows' time to live counts.
    """
    path = Path(path)
    existing = store.open(table).settings if store.has(table) and not replace else None
    with _naming(path):
        schema, batches = _read(path, existing, key)
    check_columns(schema, str(path))
    missing = [name for name in key if name not in schema.names]
    if missing or not key:
        raise SchemaError(
            f"there is no key column {missing[0]!r}" if missing else "no key column is named",
            where=str(path),
            hint=f"columns of the file: {', '.join(schema.names)}",
        )
    declared = declare(
        table,
        pa.schema([schema.field(name) for name in key]),
        pa.schema([field for field in schema if field.name not in key]),
        ttl,
    )
    with _naming(path):
        if existing is None:
            return Loaded(store.replace(table, declared, batches, now_us), True)
        evolve(table, existing, declared)
        return Loaded(_append(store, table, declared, ttl or existing.ttl, batches, now_us), False)


def _append(
    store: LookupStore, table: str, declared: Settings, ttl: int | None, batches: Iterable[Rows], now_us: int
) -> int:
    rows = 0
    with store.create(table, declared.key, declared.value, ttl) as opened:
        number = opened.writer().last_batch(WRITER)
        for batch in batches:
            number = 0 if number is None else number + 1
            rows += opened.upsert(batch, writer=WRITER, batch_id=number, now_us=now_us).written
    return rows


def _read(path: Path, existing: Settings | None, key: Sequence[str]) -> tuple[pa.Schema, Iterable[Rows]]:
    """The columns of a file, in types that Spark has too, and its rows."""
    known = None if existing is None else pa.schema([*existing.key, *existing.value])
    name = path.name.lower()
    if name.endswith(_PARQUET):
        file = parquet.ParquetFile(path)
        schema = _usual(file.schema_arrow, known)
        return schema, (_cast(batch, schema) for batch in file.iter_batches(_BATCH_ROWS))
    if name.endswith(_CSV):
        table = _read_csv(
            path, {} if known is None else dict(zip(known.names, known.types, strict=True)), key
        )
    elif name.endswith(_JSON):
        with pa.input_stream(path) as lines:
            table = json.read_json(lines, parse_options=json.ParseOptions(explicit_schema=known))
    else:
        raise StoreError(
            f"what {path.name!r} holds cannot be told from its name",
            where=str(path),
            hint=f"files are {', '.join((*_PARQUET, *_CSV, *_JSON))}",
        )
    schema = _usual(table.schema, known)
    return schema, (_cast(batch, schema) for batch in table.to_batches(_BATCH_ROWS))


def _read_csv(path: Path, types: Mapping[str, pa.DataType], key: Sequence[str]) -> pa.Table:
    """A CSV file with the types that are known, and others guessed where nothing is lost by it."""

    def read(types: Mapping[str, pa.DataType]) -> pa.Table:
        return csv.read_csv(
            path,
            parse_options=csv.ParseOptions(newlines_in_values=True),
            convert_options=csv.ConvertOptions(column_types=types),
        )

    guessed = read(types)
    if len(set(guessed.schema.names)) < guessed.num_columns:
        return guessed  # which is refused
    doubtful = [f.name for f in guessed.schema if f.name not in types and not pa.types.is_string(f.type)]
    texts = read({**types, **dict.fromkeys(doubtful, pa.string())})
    lost = [name for name in doubtful if _loses(texts[name], guessed[name], name in key)]
    for name in lost:
        # An empty field is an empty text, but was to be a number: it has no value.
        known = pc.if_else(pc.is_valid(guessed[name]), texts[name], pa.scalar(None, pa.string()))
        guessed = guessed.set_column(guessed.schema.get_field_index(name), name, known)
    return guessed


def _loses(texts: pa.ChunkedArray, values: pa.ChunkedArray, is_key: bool) -> bool:
    """Whether texts are more than the values that they would be read as."""
    if pc.any(pc.match_substring_regex(texts, r"^[+-]?0\d")).as_py():
        return True
    known = texts.filter(pc.is_valid(values))
    return is_key and pc.count_distinct(known).as_py() > pc.count_distinct(values).as_py()


def _usual(schema: pa.Schema, known: pa.Schema | None) -> pa.Schema:
    """Columns of a file with the types that the table has, or else the nearest ones that Spark has."""
    fields = []
    for field in schema:
        index = -1 if known is None else known.get_field_index(field.name)
        fields.append(known.field(index) if known and index >= 0 else _usual_field(field))
    return pa.schema(fields)


def _usual_field(field: pa.Field) -> pa.Field:
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    t = pa.types
    if t.is_null(kind) or t.is_large_string(kind) or t.is_string_view(kind):
        kind = pa.string()
    elif t.is_large_binary(kind) or t.is_binary_view(kind):
        kind = pa.binary()
    elif t.is_timestamp(kind):
        kind = pa.timestamp("us", "UTC" if kind.tz else None)
    elif t.is_date(kind):
        kind = pa.date32()
    elif t.is_float16(kind):
        kind = pa.float32()
    elif t.is_unsigned_integer(kind):
        kind = {8: pa.int16(), 16: pa.int32(), 32: pa.int64(), 64: pa.decimal128(20, 0)}[kind.bit_width]
    return pa.field(field.name, kind)


def _cast(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            column if column.type == kind else column.cast(kind, safe=not pa.types.is_timestamp(kind))
            for column, kind in zip(batch.columns, schema.types, strict=True)
        ],
        schema=schema,
    )


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turn errors about a file into errors that name it."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise StoreError(
            f"the file cannot be loaded: {text}",
            where=str(path),
            hint="check that it exists and is what its name says",
        ) from error
