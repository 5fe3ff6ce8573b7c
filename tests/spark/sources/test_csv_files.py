"""CSV files as texts, without Spark."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest

from braid.core.columns import FILE_PATH, NOTE
from braid.core.errors import LogError
from braid.engine.notes import COUNTS, SEPARATOR, Notes
from braid.spark.sources import csv_files
from braid.spark.sources.csv_files import CsvFiles


def read(path: Path, content: bytes, files: CsvFiles | None = None) -> tuple[list[tuple], list[tuple], int]:
    """The rows of a file, its letters as (reason, detail, raw), and how many rows were counted."""
    path.write_bytes(content)
    named = pa.record_batch({FILE_PATH: [f"file:{path}"]})
    notes = Notes()
    reader = files or CsvFiles(("a", "b"))
    rows = [
        tuple(row[name] for name in reader.columns)
        for batch in notes.strip(reader.read(iter([named])))
        for row in batch.to_pylist()
    ]
    letters = list(zip(*(part.to_pylist() for part in notes.columns()), strict=True)) if notes.letters else []
    (counted,) = notes.counts
    assert (counted.files_in, counted.rows_in) == (1, len(rows) + len(letters))
    return rows, letters, counted.rows_in


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b"a,b\n1,2\n", [("1", "2")]),
        (b"b,a\n2,1\n", [("1", "2")]),
        (b"x,b,a,y\n0,2,1,3\n", [("1", "2")]),
        (b"\xef\xbb\xbfa,b\r\n1,2\r\n\r\n3,4", [("1", "2"), ("3", "4")]),
        (b'a,b\n"x, ""y""\n z",2\n', [('x, "y"\n z', "2")]),
        (b'"a","b"\n1,""\n,2\n', [("1", ""), (None, "2")]),
        (b'"a",b,"long\nname"\n1,2,3\n', [("1", "2")]),
        (b"a,b,\n1,2,\n", [("1", "2")]),
        ("a,b\nä,日本\n".encode(), [("ä", "日本")]),
        (b"\n\r\na,b\n1,2\n", [("1", "2")]),
        (b"a,b\n", []),
        (b"", []),
        (b"\n\n", []),
    ],
)
def test_records_are_read_by_the_header_of_their_file(tmp_path: Path, content: bytes, rows: list) -> None:
    assert read(tmp_path / "x.csv", content) == (rows, [], len(rows))
    assert read(tmp_path / "x.csv.gz", gzip.compress(content))[0] == rows


@pytest.mark.parametrize(
    ("content", "rows", "detail", "raw"),
    [
        (b"a,b\n1,2\n3\n4,5\n", 2, "1 fields instead of 2", "3"),
        (b"a,b\n1,2,\n3,4\n", 1, "3 fields instead of 2", "1,2,"),
        (b"a,c\n1,2\n", 0, "no column 'b', but a, c", '{"a":"1","c":"2"}'),
        (b"a,b,b\n1,2,3\n", 0, "more than one column 'b'", '{"a":"1","b (2)":"2","b (3)":"3"}'),
        (b"a,b\n1,\xff2\n3,4\n", 1, "not UTF-8", '{"a":"1","b":"\\\\xff2"}'),
    ],
)
def test_what_is_no_record_is_listed_with_its_file(
    tmp_path: Path, content: bytes, rows: int, detail: str, raw: str
) -> None:
    found, letters, _ = read(tmp_path / "bad.csv", content)
    assert len(found) == rows
    ((reason, said, text),) = letters
    assert (reason, said.startswith("bad.csv: "), detail in said) == ("malformed_csv", True, True)
    assert text == raw


def test_a_quote_that_is_never_closed_loses_nothing(tmp_path: Path) -> None:
    rows, letters, _ = read(tmp_path / "x.csv", b'a,b\n1,2\n3,"4\n5,6\n7,8\n')
    assert rows[0] == ("1", "2")
    assert "5,6" in repr(rows[1:]) + repr(letters)


def test_files_without_a_header_and_other_delimiters(tmp_path: Path) -> None:
    files = CsvFiles(("a", "b"), header=False, delimiter=";")
    rows, letters, _ = read(tmp_path / "x.csv", b"1;2\n3,4;5\n6\n", files)
    assert rows == [("1", "2"), ("3,4", "5")]
    assert len(letters) == 1


def test_files_that_cannot_be_read_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for content in (b"no gzip at all", gzip.compress(b"a,b\n" + b"1,2\n" * 5000)[:-20]):
        with pytest.raises(LogError, match=r"x\.csv\.gz: cannot read the file"):
            read(tmp_path / "x.csv.gz", content)
    with pytest.raises(LogError, match=r"gone\.csv: cannot read the file"):
        list(CsvFiles(("a",)).rows(f"file:{tmp_path}/gone.csv"))
    monkeypatch.setattr(csv_files, "_BLOCK", 2**20)
    with pytest.raises(LogError, match="32 MB at most"):
        read(tmp_path / "x.csv", b"a,b\n" + b'1,"' + b"x" * (4 * 2**20) + b'"\n')


def test_counters_travel_in_a_row_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b"a,b\n1,2\n")
    *_, last = CsvFiles(("a", "b")).rows(f"file:{tmp_path}/x.csv")
    assert last.column(NOTE)[0].as_py().split(SEPARATOR)[0] == COUNTS
