"""Reads log files in parts."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

_MOST_BYTES = 1 << 20


class ReadLines(NamedTuple):
    """Lines of a log, and the byte to go on at."""

    lines: list[str]
    next: int


def read_lines(path: Path, after: int | None, lines: int) -> ReadLines:
    """Whole lines of a log from a byte on, or its last ones; a file that has been begun anew is read anew."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return ReadLines([], 0)
    start = max(0, size - _MOST_BYTES) if after is None else after if after <= size else 0
    with path.open("rb") as file:
        file.seek(start)
        data = file.read(_MOST_BYTES)
    whole = data[: data.rfind(b"\n") + 1]
    found = whole.splitlines(keepends=True)
    if after is None:
        kept = found[-lines:]
        end = start + len(whole)
    else:
        kept = found[:lines]
        end = start + sum(map(len, kept))
    return ReadLines([line.decode("utf-8", "replace").rstrip("\n") for line in kept], end)
