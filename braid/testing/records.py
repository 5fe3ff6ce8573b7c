"""Raw records as typed rows, in this process: as Spark parses them, for the usual types."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation

import pyarrow as pa
import pyarrow.compute as pc

from braid.core.columns import RAW_COLUMN
from braid.core.times import YEAR_1, YEAR_9999_END
from braid.plan.stages.base import TIME_TYPES, Column, Source
from braid.testing.expressions import ROW, NotEvaluatedError, arrow_type

_UNITS = {"seconds": 1_000_000, "milliseconds": 1_000, "microseconds": 1}
_DATED = re.compile(r"\s*\d{4}-\d{2}-\d{2}")
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _UnfitError(Exception):
    """A value is not of the type of its column."""


@dataclass(frozen=True)
class Typed:
    """Rows with the declared columns.

    Parameters
    ----------
    rows
        Those that fit, each with its number as `__row`.
    dead
        How many do not, which are dead letters.
    """

    rows: pa.Table
    dead: int


def typed(stored: pa.Table, source: Source) -> Typed:
    """The declared columns of stored rows: JSON texts, or typed already."""
    raw = stored.column_names == [RAW_COLUMN]
    return _parsed(stored.column(RAW_COLUMN).to_pylist(), source) if raw else _cast(stored, source)


def _parsed(texts: Sequence[str | None], source: Source) -> Typed:
    readers = [(column.name, _reader(column, source)) for column in source.columns]
    columns: list[list[object]] = [[] for _ in readers]
    decode = json.JSONDecoder(parse_float=_Number, parse_int=_Number).decode
    numbers = []
    for number, text in enumerate(texts):
        try:
            record = decode(text or "")
            if not isinstance(record, dict):
                continue
            values = [None if record.get(name) is None else read(record[name]) for name, read in readers]
        except (ValueError, RecursionError, _UnfitError):
            continue
        numbers.append(number)
        for column, value in zip(columns, values, strict=True):
            column.append(value)
    arrays = [
        pa.array(values, arrow_type(column.type))
        for values, column in zip(columns, source.columns, strict=True)
    ]
    names = [column.name for column in source.columns]
    rows = pa.Table.from_arrays([*arrays, pa.array(numbers, pa.int64())], names=[*names, ROW])
    return Typed(rows, len(texts) - len(numbers))


class _Number(str):
    """A number as it is written."""


def _reader(column: Column, source: Source) -> Callable[[object], object]:
    if column.type in TIME_TYPES:
        unit = _UNITS[source.time_unit]
        return _event_time(unit) if column.name == source.time else _time(unit)
    if column.type in _BITS:
        return _integer(_BITS[column.type])
    if column.type.startswith("decimal("):
        return _decimal(int(column.type.rpartition(",")[2].rstrip(")")))
    found = {"string": _text, "double": _double, "float": _double, "boolean": _boolean, "date": _date}
    if column.type not in found:
        raise NotEvaluatedError(f"column {column.name!r}: {column.type} is not parsed outside of Spark")
    return found[column.type]


def _text(value: object) -> str:
    if isinstance(value, str):
        return str(value)
    return json.dumps(value, default=str, separators=(",", ":"), ensure_ascii=False)


def _integer(bits: int) -> Callable[[object], int]:
    most = 2 ** (bits - 1)

    def read(value: object) -> int:
        if not isinstance(value, _Number) or not value.lstrip("-").isdigit():
            raise _UnfitError
        number = int(value)
        if not -most <= number < most:
            raise _UnfitError
        return number

    return read


def _double(value: object) -> float:
    if isinstance(value, _Number) or value in ("NaN", "Infinity", "-Infinity", "+Infinity", "INF", "-INF"):
        return float(str(value))
    raise _UnfitError


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise _UnfitError
    return value


def _decimal(scale: int) -> Callable[[object], Decimal]:
    def read(value: object) -> Decimal:
        if not isinstance(value, str):
            raise _UnfitError
        try:
            return Decimal(value).quantize(Decimal(1).scaleb(-scale))
        except InvalidOperation:
            raise _UnfitError from None

    return read


def _date(value: object) -> date:
    try:
        return date.fromisoformat(str(value)[:10])
    except ValueError:
        raise _UnfitError from None


def _micros(value: object, unit: int) -> int | None:
    """Microseconds of a number in a unit, or of ISO-8601 text; None if it is neither."""
    text = str(value)
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = None
    if number is not None:
        # As far as decimals of 38 digits go, 9 of them behind the point; and no power that takes for ever.
        return round(number * unit) if number.is_finite() and number.adjusted() < 29 else None
    if not _DATED.match(text):
        return None
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    found = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    elapsed = found - _EPOCH
    return (elapsed.days * 86_400 + elapsed.seconds) * 1_000_000 + elapsed.microseconds


def _time(unit: int) -> Callable[[object], int]:
    def read(value: object) -> int:
        micros = _micros(value, unit)
        if micros is None or not YEAR_1 <= micros <= YEAR_9999_END:
            raise _UnfitError
        return micros

    return read


def _event_time(unit: int) -> Callable[[object], int | None]:
    """Text that is no time is NULL, and a time that is too far off stays so, for its validity to say."""

    def read(value: object) -> int | None:
        micros = _micros(value, unit)
        return None if micros is None else min(max(micros, YEAR_1 - 1), YEAR_9999_END + 1)

    return read


def _cast(stored: pa.Table, source: Source) -> Typed:
    """Columns that are typed already, in the declared types."""
    fits = pa.repeat(True, stored.num_rows)
    columns = []
    for column in source.columns:
        values, target = stored.column(column.name).combine_chunks(), arrow_type(column.type)
        if values.type != target:
            cast = _try_cast(values, column, source)
            if column.name != source.time:
                fits = pc.and_(fits, pc.equal(values.is_valid(), cast.is_valid()))
            values = cast
        columns.append(values)
    names = [column.name for column in source.columns]
    numbers = pa.array(range(stored.num_rows), pa.int64())
    rows = pa.Table.from_arrays([*columns, numbers], names=[*names, ROW]).filter(fits)
    return Typed(rows, stored.num_rows - rows.num_rows)


def _try_cast(values: pa.Array, column: Column, source: Source) -> pa.Array:
    target = arrow_type(column.type)
    if column.type in TIME_TYPES and not pa.types.is_timestamp(values.type):
        unit = _UNITS[source.time_unit]
        times = [None if value is None else _micros(value, unit) for value in values.to_pylist()]
        usual = (None if at is None or not YEAR_1 <= at <= YEAR_9999_END else at for at in times)
        return pa.array(usual, target)
    try:
        return values.cast(target)
    except pa.ArrowException:
        raise NotEvaluatedError(
            f"column {column.name!r} is stored as {values.type}, and is {column.type} in Spark only"
        ) from None
