"""Raw records to typed columns, in Catalyst; what does not fit gets a note."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from braid.core.columns import NOTE
from braid.core.times import YEAR_1, YEAR_9999_END
from braid.engine.notes import DROP, MISSING_FIELD, SEPARATOR
from braid.plan.stages.base import Column

RAW = "__raw"
"""The record as it came, while it may still be needed for a note."""
_CORRUPT = "__corrupt"
_TIMES = ("timestamp", "timestamp_ltz", "timestamp_ntz")
_UNITS = {"seconds": 1_000_000, "milliseconds": 1_000, "microseconds": 1}


def parse_json(
    frame: DataFrame, columns: Sequence[Column], required: Iterable[str], unit: str, time: str | None
) -> DataFrame:
    """Columns of JSON objects in a text column `value`, with `__raw` and `__note`.

    Parameters
    ----------
    frame
        Has a column `value`.
    columns
        What to read, with types.
    required
        Columns that must be in a record, be it as null: without key or time it says nothing.
    unit
        Unit of numbers that stand for times.
    time
        The event-time column: text that is no time becomes NULL, for the slicer to report.
    """
    fields = ", ".join(f"`{c.name}` {'string' if c.type in _TIMES else c.type}" for c in columns)
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    parsed = frame.select(
        F.col("value").alias(RAW),
        F.from_json("value", f"{fields}, {_CORRUPT} string", options).alias("p"),
    )
    # Spark reads the first object of an array, and nothing of what follows an object: both would lose data.
    whole = F.col(RAW).rlike(r"^\s*\{[\s\S]*\}\s*$") & F.col("p").isNotNull()
    malformed = ~F.coalesce(whole, F.lit(False)) | (
        F.col(f"p.{_CORRUPT}").isNotNull() & F.expr(f"try_parse_json({RAW}) IS NULL")
    )
    missing = _names(
        (name, F.col(f"p.`{name}`").isNull() & ~F.array_contains(F.json_object_keys(F.col(RAW)), name))
        for name in required
    )
    typed = {c.name: F.col(f"p.`{c.name}`") for c in columns}
    bad = []
    for column in columns:
        text = typed[column.name]
        if column.type in _TIMES:
            typed[column.name] = parse_time(text, unit).cast(column.type)
            if column.name != time:
                bad.append((column.name, text.isNotNull() & typed[column.name].isNull()))
        elif column.type != "string":
            present = F.get_json_object(F.col(RAW), f"$['{column.name}']").isNotNull()
            bad.append((column.name, F.col(f"p.{_CORRUPT}").isNotNull() & text.isNull() & present))
    note = (
        F.when(malformed, _note("malformed_json", F.lit("")))
        .when(missing.isNotNull(), _note(MISSING_FIELD, missing))
        .when(_names(bad).isNotNull(), _note("untypable_field", _names(bad)))
        .when(F.col(f"p.{_CORRUPT}").isNotNull(), _note("untypable_field", F.lit("")))
    )
    return parsed.select(*(typed[c.name].alias(c.name) for c in columns), F.col(RAW), note.alias(NOTE))


def parse_texts(frame: DataFrame, columns: Sequence[Column], unit: str, time: str | None) -> DataFrame:
    """Columns of a frame whose columns are all text, as of CSV files, with `__raw` and `__note`."""
    typed, bad = [], []
    for column in columns:
        text = F.col(f"`{column.name}`")
        value = parse_time(text, unit) if column.type in _TIMES else text.try_cast(column.type)
        typed.append(value.cast(column.type).alias(column.name))
        if column.name != time:
            bad.append((column.name, text.isNotNull() & value.isNull()))
    raw = F.to_json(F.struct(*(F.col(f"`{c.name}`") for c in columns)))
    note = F.when(_names(bad).isNotNull(), _note("untypable_field", _names(bad), raw))
    return frame.select(*typed, raw.alias(RAW), note.alias(NOTE))


def parse_typed(frame: DataFrame, columns: Sequence[Column], unit: str) -> DataFrame:
    """Columns of a frame that is typed already, cast to what was declared, with `__raw` and `__note`."""
    types = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    typed = []
    for column in columns:
        value = F.col(f"`{column.name}`")
        if column.type in _TIMES and types[column.name] not in _TIMES:
            value = parse_time(value.cast("string"), unit)
        typed.append(value.cast(column.type).alias(column.name))
    raw = F.to_json(F.struct(*(F.col(f"`{c.name}`") for c in columns)))
    return frame.select(*typed, raw.alias(RAW), F.lit(None).cast("string").alias(NOTE))


def parse_time(text: SparkColumn, unit: str) -> SparkColumn:
    """A timestamp from ISO-8601 text, or from a number in the declared unit; NULL if it is neither."""
    number = text.try_cast("decimal(38,9)")
    micros = F.round(number * F.lit(_UNITS[unit]))
    valid = (micros >= F.lit(YEAR_1)) & (micros <= F.lit(YEAR_9999_END))
    # Spark would read a time of day without a date as one of today.
    dated = text.rlike(r"^\s*\d{4}-\d{2}-\d{2}")
    return F.when(number.isNotNull(), F.when(valid, F.timestamp_micros(micros.cast("bigint")))).when(
        dated, text.try_cast("timestamp")
    )


def _names(tests: Iterable[tuple[str, SparkColumn]]) -> SparkColumn:
    """The first name whose test is true; NULL if none is."""
    none = F.lit(None).cast("string")
    return reduce(lambda rest, test: F.when(test[1], F.lit(test[0])).otherwise(rest), tests, none)


def _note(reason: str, detail: SparkColumn, raw: SparkColumn | None = None) -> SparkColumn:
    raw = F.col(RAW) if raw is None else raw
    parts = (F.lit(DROP), F.lit(reason), detail, F.coalesce(raw, F.lit("")))
    return F.concat_ws(SEPARATOR, *parts)
