"""Writes docs/options.md from the options that the code declares.

`python tools/options.py --write` brings the page up to date; without it, the command fails if it is not.
"""

from __future__ import annotations

import sys
import types
import typing
from pathlib import Path

import annotated_types

from braid.core.config import UNLIMITED, Age, AppConfig, is_duration

PAGE = Path(__file__).parents[1] / "docs" / "options.md"
_HEAD = """# Options

What `CREATE APPLICATION name WITH (option = value, ...)` and `braid run --set option=value` accept; the
latter wins. Written by `tools/options.py` from `braid/core/config.py`.

Durations are texts such as `'90 seconds'`, `'30 minutes'` or `'3 hours'`; plain numbers are seconds.
Where `'forever'` is an option, upkeep removes nothing ([running](running.md#upkeep)).

| option | type | default | meaning |
|---|---|---|---|
"""
_UNITS = (("day", 86_400_000_000), ("hour", 3_600_000_000), ("minute", 60_000_000), ("second", 1_000_000))


def page() -> str:
    """The text of the page."""
    rows = []
    for name, field in AppConfig.model_fields.items():
        age, duration = typing.get_args(Age)[1] in field.metadata, is_duration(name)
        kind = "duration" if duration else _type(field.annotation)
        kind += f" or `'{UNLIMITED}'`" * age
        limits = [text for mark in field.metadata if (text := _limit(mark, duration))]
        default = _duration(field.default) if duration else _value(field.default)
        rows.append(f"| `{name}` | {', '.join([kind, *limits])} | {default} | {field.description} |\n")
    return _HEAD + "".join(rows)


def _type(annotation: object) -> str:
    if typing.get_origin(annotation) is typing.Literal:
        return " or ".join(f"`{value}`" for value in typing.get_args(annotation))
    if isinstance(annotation, types.UnionType):
        known = [kind for kind in typing.get_args(annotation) if kind is not types.NoneType]
        return " or ".join(_type(kind) for kind in known)
    names = {int: "whole number", float: "number", bool: "true or false", str: "text"}
    return names[typing.cast(type, annotation)]


def _limit(mark: object, duration: bool) -> str | None:
    # That a duration is not negative goes without saying.
    if isinstance(mark, annotated_types.Ge):
        return None if duration else f"at least {mark.ge}"
    if isinstance(mark, annotated_types.Le):
        return f"at most {mark.le}"
    if isinstance(mark, annotated_types.Gt):
        return f"more than {mark.gt}"
    return f"less than {mark.lt}" if isinstance(mark, annotated_types.Lt) else None


def _value(value: object) -> str:
    if value is None:
        return "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _duration(micros: int) -> str:
    if micros == 0:
        return "`'0 seconds'`"
    name, size = next((name, size) for name, size in _UNITS if micros % size == 0)
    count = micros // size
    return f"`'{count} {name}{'' if count == 1 else 's'}'`"


def main(arguments: list[str]) -> int:
    """Write the page, or say whether it is up to date."""
    if "--write" in arguments:
        PAGE.write_text(page())
        return 0
    if PAGE.exists() and PAGE.read_text() == page():
        return 0
    sys.stdout.write("docs/options.md is out of date; run python tools/options.py --write\n")
    return 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
