"""Raw records to typed columns, in Catalyst; what does not fit gets a note."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from braid.core.columns import NOTE, RAW
from braid.core.times import YEAR_1, YEAR_9999_END
from braid.engine.notes import DROP, KEEP, MISSING_FIELD, SEPARATOR
from braid.plan.stages.base import Column

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
        Columns that should be in a record, be it as null: a row without them goes on as with null, and a note
        says so.
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
    # The first and last characters tell of most records, where the pattern would look at every character.
    braced = F.col(RAW).startswith("{") & F.col(RAW).endswith("}")
    whole = (braced | F.col(RAW).rlike(r"^\s*\{[\s\S]*\}\s*$")) & F.col("p").isNotNull()
    closed_before = F.instr(RAW, "}") < F.length(F.rtrim(RAW))
    doubtful = F.col(f"p.{_CORRUPT}").isNotNull() | closed_before
    malformed = ~F.coalesce(whole, F.lit(False)) | (doubtful & ~_one_value(F.col(RAW)))
    missing = _names(
        (name, F.col(f"p.`{name}`").isNull() & ~F.array_contains(F.json_object_keys(F.col(RAW)), name))
        for name in required
    )
    typed = {c.name: F.col(f"p.`{c.name}`") for c in columns}
    bad = []
    for column in columns:
        text = typed[column.name]
        if column.type in _TIMES:
            typed[column.name] = _time(column, text, unit, time).cast(column.type)
            if column.name != time:
                bad.append((column.name, text.isNotNull() & typed[column.name].isNull()))
        elif column.type != "string":
            present = F.get_json_object(F.col(RAW), f"$['{column.name}']").isNotNull()
            bad.append((column.name, F.col(f"p.{_CORRUPT}").isNotNull() & text.isNull() & present))
    note = (
        F.when(~F.is_valid_utf8(RAW), _note("malformed_json", F.lit("not UTF-8"), F.make_valid_utf8(RAW)))
        .when(malformed, _note("malformed_json", F.lit("")))
        .when(_names(bad).isNotNull(), _note("untypable_field", _names(bad)))
        .when(F.col(f"p.{_CORRUPT}").isNotNull(), _note("untypable_field", F.lit("")))
        .when(missing.isNotNull(), _note(MISSING_FIELD, missing, flag=KEEP))
    )
    return parsed.select(*(typed[c.name].alias(c.name) for c in columns), F.col(RAW), note.alias(NOTE))


def parse_texts(frame: DataFrame, columns: Sequence[Column], unit: str, time: str | None) -> DataFrame:
    """Columns of a frame whose columns are texts, as of CSV files, with `__raw` and `__note`, as it has."""
    typed, bad = [], []
    for column in columns:
        text = F.col(f"`{column.name}`")
        value = _time(column, text, unit, time) if column.type in _TIMES else text.try_cast(column.type)
        typed.append(value.cast(column.type).alias(column.name))
        if column.name != time:
            bad.append((column.name, text.isNotNull() & value.isNull()))
    raw = F.coalesce(F.col(RAW), _record(columns))
    note = F.coalesce(
        F.col(NOTE), F.when(_names(bad).isNotNull(), _note("untypable_field", _names(bad), raw))
    )
    return frame.select(*typed, raw.alias(RAW), note.alias(NOTE))


def parse_typed(frame: DataFrame, columns: Sequence[Column], unit: str, time: str | None) -> DataFrame:
    """Columns of a frame that is typed already, cast to what was declared, with `__raw` and `__note`."""
    types = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    typed, bad = [], []
    for column in columns:
        value = stored = F.col(f"`{column.name}`")
        if column.type in _TIMES and types[column.name] not in _TIMES:
            value = _time(column, stored.cast("string"), unit, time)
        elif types[column.name] != column.type:
            value = stored.try_cast(column.type)
        typed.append(value.cast(column.type).alias(column.name))
        if column.name != time and types[column.name] != column.type:
            bad.append((column.name, stored.isNotNull() & value.isNull()))
    raw = _record(columns)
    note = F.when(_names(bad).isNotNull(), _note("untypable_field", _names(bad), raw))
    return frame.select(*typed, raw.alias(RAW), note.alias(NOTE))


def _record(columns: Sequence[Column]) -> SparkColumn:
    return F.to_json(F.struct(*(F.col(f"`{c.name}`") for c in columns)))


def _time(column: Column, text: SparkColumn, unit: str, event_time: str | None) -> SparkColumn:
    """A time of a record; an event time that is out of range stays so, for its validity to say."""
    return parse_time(text, unit, keep_far=column.name == event_time)


def parse_time(text: SparkColumn, unit: str, *, keep_far: bool = False) -> SparkColumn:
    """A timestamp from ISO-8601 text, or from a number in the declared unit; NULL if it is neither.

    A number beyond the years 1 to 9999 is NULL, or with `keep_far` the nearest time that is beyond them.
    """
    number = text.try_cast("decimal(38,9)")
    micros = F.round(number * F.lit(_UNITS[unit]))
    limits = F.lit(YEAR_1 - 1), F.lit(YEAR_9999_END + 1)
    if keep_far:
        micros = F.greatest(F.least(micros, limits[1]), limits[0])
    valid = F.lit(keep_far) | ((micros > limits[0]) & (micros < limits[1]))
    # Spark would read a time of day without a date as one of today.
    dated = text.rlike(r"^\s*\d{4}-\d{2}-\d{2}")
    return F.when(number.isNotNull(), F.when(valid, F.timestamp_micros(micros.cast("bigint")))).when(
        dated, text.try_cast("timestamp")
    )


def _one_value(text: SparkColumn) -> SparkColumn:
    """Whether a text is one JSON value, and nothing more.

    Spark counts the values of an array without looking behind its end; but no text can end the array for both
    counts.
    """
    alone = F.json_array_length(F.concat(F.lit("["), text, F.lit("]")))
    followed = F.json_array_length(F.concat(F.lit("["), text, F.lit(",0]")))
    return F.coalesce((alone == 1) & (followed == 2), F.lit(False))


def _names(tests: Iterable[tuple[str, SparkColumn]]) -> SparkColumn:
    """The first name whose test is true; NULL if none is."""
    none = F.lit(None).cast("string")
    return reduce(lambda rest, test: F.when(test[1], F.lit(test[0])).otherwise(rest), tests, none)


def _note(reason: str, detail: SparkColumn, raw: SparkColumn | None = None, flag: str = DROP) -> SparkColumn:
    raw = F.col(RAW) if raw is None else raw
    parts = (F.lit(flag), F.lit(reason), detail, F.coalesce(raw, F.lit("")))
    return F.concat_ws(SEPARATOR, *parts)
