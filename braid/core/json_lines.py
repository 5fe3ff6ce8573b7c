"""Lines of bytes as batches of raw records."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from braid.core.columns import RAW_COLUMN
from braid.core.errors import SchemaError

BLOCK = 8 * 2**20
"""Bytes that are read at once. A line may be longer."""
_BOM = b"\xef\xbb\xbf"


def line_batches(read: Callable[[int], bytes], where: str) -> Iterator[pa.Table]:
    """The lines of UTF-8 text, without blank ones, a byte order mark, and what ends them.

    The lines before one that is not UTF-8 are given before the error.

    Parameters
    ----------
    read
        Gives up to so many bytes; none at the end.
    where
        What is read, for errors.
    """
    number, left = 1, b""
    first = True
    while True:
        block = read(BLOCK)
        data = left + block
        if first and (len(data) >= len(_BOM) or not block):
            data, first = data.removeprefix(_BOM), False
        end = len(data) if not block else data.rfind(b"\n") + 1
        whole, left = data[:end], data[end:]
        if whole:
            yield from _lines(whole, number, where)
            number += whole.count(b"\n")
        if not block:
            return


def _lines(data: bytes, number: int, where: str) -> Iterator[pa.Table]:
    bad: SchemaError | None = None
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        begin = data.rfind(b"\n", 0, error.start) + 1
        line = number + data.count(b"\n", 0, begin)
        text = data[:begin].decode()
        bad = SchemaError(
            f"line {line} is not UTF-8: byte 0x{data[error.start]:02x}, {error.reason}",
            where=where,
            hint="nothing was published; convert the file, or remove the line",
        )
    lines = pc.utf8_rtrim(pa.array(text.split("\n"), pa.string()), "\r")
    yield pa.table({RAW_COLUMN: lines.filter(pc.not_equal(pc.utf8_trim_whitespace(lines), ""))})
    if bad is not None:
        raise bad


def json_text(record: Mapping[str, object]) -> str:
    """A record as JSON, in which NaN and the infinities are texts, as `braid.core.json_rows` has them."""
    try:
        return json.dumps(record, allow_nan=False)
    except ValueError:
        return json.dumps(_plain(record), allow_nan=False)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
