"""CSV files as batches of texts: by the header of each file, with quotes as in RFC 4180.

Spark finds the files and remembers which it has read; its own reader takes the columns of every file for
those of the first one. What cannot be read becomes a note, with the name of the file.
"""

from __future__ import annotations

import csv
import io
import urllib.parse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv
from pyarrow import fs

from braid.core.columns import FILE_PATH, NOTE, RAW
from braid.core.counters import Counters
from braid.core.errors import LogError
from braid.core.json_rows import json_rows
from braid.engine.notes import DROP, counts_note, note_array

MALFORMED_CSV = "malformed_csv"
"""Reason of a dead letter about a line that is not a record of its file."""
_HEADER_BYTES = 2**20
_BLOCK = 32 * 2**20
"""Most bytes of a record."""
_UTF8 = (
    r"^(?:[\x00-\x7F]|[\xC2-\xDF][\x80-\xBF]|\xE0[\xA0-\xBF][\x80-\xBF]|[\xE1-\xEC\xEE\xEF][\x80-\xBF]{2}"
    r"|\xED[\x80-\x9F][\x80-\xBF]|\xF0[\x90-\xBF][\x80-\xBF]{2}|[\xF1-\xF3][\x80-\xBF]{3}"
    r"|\xF4[\x80-\x8F][\x80-\xBF]{2})*$"
)
"""Bytes that are UTF-8."""


@dataclass(frozen=True)
class CsvFiles:
    """Reads files.

    Parameters
    ----------
    columns
        What to read, by name; without a header, what the fields of a line are, in order.
    header
        Whether the first record of every file names its fields.
    delimiter
        What is between fields.
    """

    columns: tuple[str, ...]
    header: bool = True
    delimiter: str = ","

    def read(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the files that Spark names: the columns as texts, with `__raw` and `__note`."""
        for batch in batches:
            for path in batch.column(FILE_PATH).to_pylist():
                yield from self.rows(path)

    def names(self, path: str) -> list[str] | None:
        """The fields of a file by name; None if it is empty."""
        return self._head(path)[0]

    def _head(self, path: str) -> tuple[list[str] | None, int]:
        """The fields of a file by name, None if it is empty, and the lines that come before its records."""
        with _reading(path), _open(path) as stream:
            start = stream.read(_HEADER_BYTES)
        if not start.strip():
            return None, 0
        if not self.header:
            return list(self.columns), 0
        text = start.decode("utf-8-sig", errors="surrogateescape")
        with _reading(path):
            lines = enumerate(csv.reader(io.StringIO(text, newline=""), delimiter=self.delimiter), 1)
            skipped, fields = next(((number, line) for number, line in lines if line), (0, []))
        names = [field.encode(errors="surrogateescape").decode(errors="backslashreplace") for field in fields]
        return names, skipped

    def rows(self, path: str) -> Iterator[pa.RecordBatch]:
        """The rows of one file, with a note of how many there are at the end."""
        read = 0
        names, skipped = self._head(path)
        if names is not None:
            wrong = self._wrong(names)
            reader = _Reader(path, names, self.delimiter, skipped)
            for fields in reader.batches():
                read += fields.num_rows
                if wrong is None:
                    yield self._texts(path, fields, names)
                else:
                    yield self._letters([f"{_short(path)}: {wrong}"] * fields.num_rows, _json(fields, names))
            if reader.refused:
                read += len(reader.refused)
                details, texts = zip(*reader.refused, strict=True)
                yield self._letters([f"{_short(path)}: {detail}" for detail in details], pa.array(texts))
        yield self._noted(
            pa.array([counts_note(Counters(rows_in=read, files_in=1))]), pa.nulls(1, pa.string())
        )

    def _wrong(self, names: Sequence[str]) -> str | None:
        """What is wrong with the fields of a file."""
        for column in self.columns:
            if names.count(column) != 1:
                problem = "no column" if column not in names else "more than one column"
                return f"the header has {problem} {column!r}, but {', '.join(names)}"
        return None

    def _texts(self, path: str, fields: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
        chosen = [fields.column(names.index(name)) for name in self.columns]
        try:
            texts = [column.cast(pa.string()) for column in chosen]
        except pa.ArrowInvalid:
            valid = pc.invert(pa.array([False] * fields.num_rows))
            for column in chosen:
                valid = pc.and_(valid, pc.fill_null(pc.match_substring_regex(column, _UTF8), True))
            bad = fields.filter(pc.invert(valid))
            details = [f"{_short(path)}: a field is not UTF-8"] * bad.num_rows
            letters = self._letters(details, _json(bad, names))
            good = self._texts(path, fields.filter(valid), names)
            return pa.concat_batches([good, letters])
        empty = pa.nulls(fields.num_rows, pa.string())
        return pa.RecordBatch.from_arrays([*texts, empty, empty], [*self.columns, RAW, NOTE])

    def _letters(self, details: Sequence[str], raw: pa.Array) -> pa.RecordBatch:
        reasons = pa.repeat(pa.scalar(MALFORMED_CSV), len(details))
        return self._noted(note_array(DROP, reasons, pa.array(details, pa.string()), raw), raw)

    def _noted(self, notes: pa.Array, raw: pa.Array) -> pa.RecordBatch:
        nothing = [pa.nulls(len(notes), pa.string())] * len(self.columns)
        return pa.RecordBatch.from_arrays([*nothing, raw, notes], [*self.columns, RAW, NOTE])


class _Reader:
    """One file, as batches of bytes by the position of fields; records of another length are set aside."""

    def __init__(self, path: str, names: Sequence[str], delimiter: str, skip: int) -> None:
        self._path = path
        self._fields = [f"f{number}" for number in range(len(names))]
        self._delimiter = delimiter
        self._skip = skip
        self.refused: list[tuple[str, str]] = []

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The records that have as many fields as there are names."""
        with _reading(self._path), _open(self._path) as stream:
            reader = arrow_csv.open_csv(
                stream,
                read_options=arrow_csv.ReadOptions(
                    use_threads=False,
                    block_size=_BLOCK,
                    column_names=self._fields,
                    skip_rows_after_names=self._skip,
                ),
                parse_options=arrow_csv.ParseOptions(
                    delimiter=self._delimiter, newlines_in_values=True, invalid_row_handler=self._refuse
                ),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(self._fields, pa.binary()),
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                    null_values=[""],
                ),
            )
            yield from reader

    def _refuse(self, row: arrow_csv.InvalidRow) -> str:
        text = row.text if isinstance(row.text, str) else bytes(row.text).decode(errors="backslashreplace")
        self.refused.append((f"{row.actual_columns} fields instead of {row.expected_columns}", text))
        return "skip"


def _json(fields: pa.RecordBatch, names: Sequence[str]) -> pa.Array:
    """Records as JSON; bytes that are not UTF-8 are shown as `\\xff`."""
    texts = []
    for column in fields.columns:
        try:
            texts.append(column.cast(pa.string()))
        except pa.ArrowInvalid:
            values = column.to_pylist()
            texts.append(pa.array([v and v.decode(errors="backslashreplace") for v in values], pa.string()))
    unique = [f"{name} ({i})" if names.count(name) > 1 else name for i, name in enumerate(names, 1)]
    return json_rows(pa.RecordBatch.from_arrays(texts, unique))


def _open(path: str) -> pa.NativeFile:
    """A file as a stream, unpacked by its name. Spark writes paths as Hadoop does, without escapes."""
    filesystem, where = fs.FileSystem.from_uri(urllib.parse.quote(path, safe=":/"))
    return filesystem.open_input_stream(where)


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Turn errors about a file into errors that name it."""
    try:
        yield
    except (OSError, csv.Error, pa.ArrowException) as error:
        raise LogError(
            f"cannot read the file: {error}",
            where=path,
            hint="it must stay as it is until it is read; records are of 32 MB at most, and quotes closed",
        ) from error


def _short(path: str) -> str:
    return path.rpartition("/")[2]
