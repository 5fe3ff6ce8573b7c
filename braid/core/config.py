"""Options of an application: names, types, defaults and meanings, in one place."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo

from braid.core.errors import ConfigError
from braid.core.times import DAY, FOREVER, HOUR, MINUTE, SECOND

_UNITS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "ms": 1_000,
    "second": 1_000_000,
    "s": 1_000_000,
    "minute": MINUTE,
    "min": MINUTE,
    "m": MINUTE,
    "hour": HOUR,
    "h": HOUR,
    "day": DAY,
    "d": DAY,
}
_WORDS = {
    "day": DAY,
    "hour": HOUR,
    "minute": MINUTE,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*")


def parse_duration(value: object) -> int:
    """Microseconds of `'90 seconds'`, `'1.5 hours'`, `'30s'`; plain numbers are seconds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return round(value * 1_000_000)
    text = str(value).lower()
    if text.strip().replace(".", "", 1).isdigit():
        return round(float(text) * 1_000_000)
    match = _DURATION.fullmatch(text)
    unit = "" if match is None else match[2] if match[2] in _UNITS else match[2].removesuffix("s")
    if match is None or unit not in _UNITS:
        raise ValueError(f"{value!r} is not a duration such as '90 seconds', '30 minutes' or '3 hours'")
    return round(float(match[1]) * _UNITS[unit])


_STORED = "stored"
"""Context of the validation of options that have been checked before: durations are microseconds."""


def _read_duration(value: object, info: ValidationInfo) -> object:
    return value if info.context == _STORED else parse_duration(value)


Duration = Annotated[int, BeforeValidator(_read_duration)]
"""Microseconds, written as text with a unit."""


UNLIMITED = "forever"
"""What is written for a time for which something is kept, if it is to be kept for ever."""


def _read_age(value: object, info: ValidationInfo) -> object:
    if isinstance(value, str) and value.strip().lower() == UNLIMITED:
        return FOREVER
    return _read_duration(value, info)


Age = Annotated[int, BeforeValidator(_read_age)]
"""A duration, or `FOREVER`."""


class AppConfig(BaseModel):
    """What `CREATE APPLICATION ... WITH (...)` and `--set` accept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    shards: int = Field(8, ge=1, le=4096, description="Shards that each join input is split into.")
    chunk_rows: int = Field(65_536, ge=1, description="Rows per chunk, the unit in which input is admitted.")
    batch_rows: int = Field(
        1_000_000, ge=1, description="Most rows a join admits per micro-batch; grows under backlog."
    )
    stream_time: Literal["calibrated", "ascending"] = Field(
        "calibrated", description="Stream-time estimator."
    )
    percentile: float | None = Field(
        None,
        gt=0,
        lt=50,
        description="Share of rows, in percent, that may arrive behind stream time. By default 5 for a "
        "stream whose late rows find their partners in the log, else 1.",
    )
    slack: Duration = Field(
        MINUTE, ge=0, description="How far one stream may run ahead of where the other one needs it."
    )
    idle_timeout: Duration = Field(
        30_000_000,
        ge=0,
        description="Silence after which a stream counts as silent, and stops holding back the other one.",
    )
    idle: Literal["proceed", "wait"] = Field(
        "proceed",
        description="What happens while one stream is silent: with `proceed`, rows of the other one wait "
        "until it has itself passed their window; with `wait`, they wait for the silent stream, however "
        "long, and the other one pauses.",
    )
    max_future: Duration = Field(
        7 * DAY, ge=0, description="Event times further ahead of the wall clock are invalid."
    )
    max_per_key: int | None = Field(None, ge=1, description="Most pending rows per key and side.")
    max_buffered_rows: int | None = Field(
        None,
        ge=1,
        description="Most rows that a join buffers; input pauses there, and the join fails if it must.",
    )
    late_lookup: bool = Field(True, description="Whether late rows look for partners in the log.")
    retention: Age = Field(
        48 * HOUR,
        ge=0,
        description="How long inputs and intermediate categories are kept in the log after they were "
        "written: as far back as late rows find partners. What a stage still needs stays for longer.",
    )
    output_retention: Age = Field(
        7 * DAY,
        ge=0,
        description="How long the categories that an application stores its tables in are kept. What another "
        "application has still to read stays for longer.",
    )
    dead_letter_retention: Age = Field(30 * DAY, ge=0, description="How long dead letters are kept.")
    latency: Duration = Field(
        SECOND,
        ge=0,
        description="Time within which results are to follow the rows they come from. Inputs are read as "
        "seldom as that allows, and back to back under backlog, or always with 0.",
    )
    trigger: Duration = Field(
        0, ge=0, description="If given, a fixed least time between micro-batches instead of `latency`."
    )


def is_duration(option: str) -> bool:
    """Whether the value of an option is microseconds."""
    readers = (
        each.func for each in AppConfig.model_fields[option].metadata if isinstance(each, BeforeValidator)
    )
    return any(reader in (_read_duration, _read_age) for reader in readers)


def parse_options(options: Mapping[str, object]) -> AppConfig:
    """Check options by name and value; raise one `ConfigError` that names what is wrong and what is valid."""
    for name in options:
        if name not in AppConfig.model_fields:
            close = difflib.get_close_matches(name, AppConfig.model_fields, n=1)
            raise ConfigError(
                f"unknown option {name!r}",
                hint=(f"did you mean {close[0]!r}? " if close else "")
                + f"valid options: {', '.join(sorted(AppConfig.model_fields))}",
            )
    try:
        return AppConfig.model_validate(dict(options))
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        raise ConfigError(
            f"option {name!r} is {options[name]!r}: {first['msg']}",
            hint=str(AppConfig.model_fields[name].description),
        ) from None


def option_text(name: str, value: object) -> str:
    """A checked value as one would write it."""
    if value is None:
        return "none"
    if isinstance(value, int) and is_duration(name):
        if value >= FOREVER:
            return UNLIMITED
        fitting = (size for size in _WORDS.values() if value % size == 0)
        size = next(fitting) if value else 1_000_000
        unit, count = {size: word for word, size in _WORDS.items()}[size], value // size
        return f"{count} {unit}{'' if count == 1 else 's'}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def option_texts(options: AppConfig) -> dict[str, str]:
    """The options that are not as by default, as one would write them."""
    changed = ((name, getattr(options, name)) for name in AppConfig.model_fields)
    return {
        name: option_text(name, value)
        for name, value in changed
        if value is not None and value != AppConfig.model_fields[name].default
    }


def stored_options(value: object) -> AppConfig:
    """Read back what `AppConfig.model_dump` gave, in which durations are microseconds."""
    try:
        return AppConfig.model_validate(value, context=_STORED)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"])) or "options"
        raise ConfigError(f"{name} is {first['input']!r}: {first['msg']}") from None
