"""Interval literals: their type and their length."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import NamedTuple

from sqlglot import exp

from braid.core.times import DAY, HOUR, MINUTE
from braid.lang.sql_types import INTERVAL, MONTHS

_MICROS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": MINUTE,
    "hour": HOUR,
    "day": DAY,
    "week": 7 * DAY,
}
_MONTHS = {"month": 1, "year": 12}
_PAIR = re.compile(r"([+-]?)\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]+)\s*")
_CLOCK = {
    ("day", "hour"): r"(?P<day>\d+) (?P<hour>\d{1,2})",
    ("day", "minute"): r"(?P<day>\d+) (?P<hour>\d{1,2}):(?P<minute>\d{1,2})",
    (
        "day",
        "second",
    ): r"(?P<day>\d+) (?P<hour>\d{1,2}):(?P<minute>\d{1,2}):(?P<second>\d{1,2}(?:\.\d{1,9})?)",
    ("hour", "minute"): r"(?P<hour>\d+):(?P<minute>\d{1,2})",
    ("hour", "second"): r"(?P<hour>\d+):(?P<minute>\d{1,2}):(?P<second>\d{1,2}(?:\.\d{1,9})?)",
    ("minute", "second"): r"(?P<minute>\d+):(?P<second>\d{1,2}(?:\.\d{1,9})?)",
    ("year", "month"): r"(?P<year>\d+)-(?P<month>\d{1,2})",
}


class Length(NamedTuple):
    """A length of time; months have no constant number of microseconds."""

    months: int
    micros: int


def interval_length(node: exp.Interval) -> Length | None:
    """The length of an interval literal, or None when it cannot be read."""
    value, unit = node.this, node.args.get("unit")
    sign = 1
    if isinstance(value, exp.Neg):
        value, sign = value.this, -1
    if not isinstance(value, exp.Literal) or len(value.name) > 200:
        return None
    text = " ".join(value.name.lower().split())
    if isinstance(unit, exp.IntervalSpan):
        found = _clock(text, _singular(unit.this.name), _singular(unit.expression.name))
    elif unit is not None:
        found = _pairs(f"{text} {unit.name.lower()}")
    else:
        found = _pairs(text.removeprefix("interval "))
    return None if found is None else Length(sign * found.months, sign * found.micros)


def interval_type(node: exp.Interval) -> str | None:
    """The Spark SQL type of an interval literal."""
    length = interval_length(node)
    if length is None:
        return INTERVAL
    return MONTHS if length.months and not length.micros else INTERVAL


def _singular(unit: str) -> str:
    return unit.lower().removesuffix("s")


def _pairs(text: str) -> Length | None:
    """`1 hour -30 minutes`: fractions are for seconds only, as in Spark."""
    months = micros = position = 0
    while position < len(text):
        match = _PAIR.match(text, position)
        if match is None:
            return None
        sign, number, unit = match[1], Decimal(match[2]), _singular(match[3])
        if sign == "-":
            number = -number
        if number % 1 and unit != "second":
            return None
        if unit in _MONTHS:
            months += int(number) * _MONTHS[unit]
        elif unit in _MICROS:
            micros += int(number * _MICROS[unit])
        else:
            return None
        position = match.end()
    return Length(months, micros) if position else None


def _clock(text: str, first: str, last: str) -> Length | None:
    """`1 02:03:04.5` with DAY TO SECOND and its relatives."""
    pattern = _CLOCK.get((first, last))
    match = re.fullmatch(f"(?P<sign>[+-]?){pattern}", text) if pattern else None
    if match is None:
        return None
    parts = match.groupdict()
    sign = -1 if parts.pop("sign") == "-" else 1
    months = sum(int(value) * _MONTHS[unit] for unit, value in parts.items() if unit in _MONTHS)
    micros = sum(int(Decimal(value) * _MICROS[unit]) for unit, value in parts.items() if unit in _MICROS)
    return Length(sign * months, sign * micros)


def in_words(micros: int) -> str:
    """A length as PQL writes it: `3 minutes`, `1 hour 30 minutes`."""
    rest, parts = abs(micros), []
    for unit in ("day", "hour", "minute", "second", "millisecond", "microsecond"):
        count, rest = divmod(rest, _MICROS[unit])
        if count:
            parts.append(f"{'-' if micros < 0 else ''}{count} {unit}{'s' if count > 1 else ''}")
    return " ".join(parts) or "0 seconds"
