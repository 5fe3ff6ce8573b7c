"""Sizes of memory and files: read from text, and in words."""

from __future__ import annotations

import re

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)b?\s*", re.IGNORECASE)
_WORDS = ("bytes", "kB", "MB", "GB", "TB", "PB")


def parse_size(value: object) -> int:
    """Bytes of `'512m'`, `'1.5g'`, `'100 GB'`; units are powers of 1024, as Java's."""
    found = _SIZE.fullmatch(str(value))
    if found is None or isinstance(value, bool):
        raise ValueError(f"{value!r} is not a size such as '512m', '2g' or '1t'")
    return round(float(found[1]) * _UNITS[found[2].lower()])


def size_words(size: float) -> str:
    """`1.2 GB`."""
    unit = 0
    while size >= 1024 and unit + 1 < len(_WORDS):
        size, unit = size / 1024, unit + 1
    return f"{size:,.0f} {_WORDS[unit]}" if unit == 0 or size >= 100 else f"{size:,.1f} {_WORDS[unit]}"
