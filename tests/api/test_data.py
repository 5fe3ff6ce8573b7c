"""Publishing, reading and listing categories."""

from __future__ import annotations

import gzip
import json
import signal
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pytest

from braid import api
from braid.api import data
from braid.api.data import (
    Publisher,
    categories,
    publish,
    publish_file,
    publish_lines,
    read,
    read_batches,
)
from braid.core.errors import LogError, RunError, SchemaError
from braid.core.json_lines import BLOCK
from braid.core.owner import Owner
from braid.home.files import read_json, write_json
from braid.home.paths import Home
from braid.log.category import Category


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.at(tmp_path)


def test_records_come_back_in_order(home: Home) -> None:
    assert publish("in", [{"a": 1}, '{"a": 2}', {"a": 3}], home) == 3
    assert [json.loads(t)["a"] for t in read("in", home)["value"].to_pylist()] == [1, 2, 3]
    assert home.log().open("in").latest() == 0
    assert read("in", home, limit=2).num_rows == 2
    assert api.read("in", home.root).num_rows == 3


def test_records_that_cannot_be_had_leave_nothing_behind(home: Home) -> None:
    def broken() -> Iterator[str]:
        yield from ("{}" for _ in range(data.BATCH_ROWS + 1))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        publish("in", broken(), home)
    assert read("in", home).num_rows == 0


def test_numbers_that_json_lacks_are_published_as_texts(home: Home) -> None:
    record = {"a": float("nan"), "b": [1.5, float("-inf")], "c": {"d": float("inf")}}
    publish("in", [record], home)
    (text,) = read("in", home)["value"].to_pylist()
    assert json.loads(text) == {"a": "NaN", "b": [1.5, "-Infinity"], "c": {"d": "Infinity"}}


LINES = b'\xef\xbb\xbf{"a": 1}\r\n\n  \n{"a": 2}\n{"a": "\xe2\x80\xa8\x0b"}'
"""A byte order mark, two kinds of line ends, blank lines, and characters that are no line ends."""


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz"])
def test_a_file_is_published_as_its_lines(home: Home, tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(gzip.compress(LINES) if name.endswith("gz") else LINES)
    assert publish_file("in", file, home) == 3
    assert read("in", home)["value"].to_pylist() == ['{"a": 1}', '{"a": 2}', '{"a": "\u2028\x0b"}']
    assert publish_file("empty", write(tmp_path / "empty", b""), home) == 0
    assert home.log().open("empty").latest() == -1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{}\n{}\n{\xff}\n", "line 3 is not UTF-8: byte 0xff"),
        ('{"a": 1}\n'.encode("utf-16"), "line 1 is not UTF-8: byte 0xff"),
        (b"{}\n" * (BLOCK // 3 + 10) + b"\xe2\x82", f"line {BLOCK // 3 + 11} is not UTF-8: byte 0xe2"),
    ],
)
def test_a_file_that_is_not_text_is_refused_whole(
    home: Home, tmp_path: Path, content: bytes, message: str
) -> None:
    file = write(tmp_path / "bad.jsonl", content)
    with pytest.raises(SchemaError, match=message) as caught:
        publish_file("in", file, home)
    assert (caught.value.where, read("in", home).num_rows) == (str(file), 0)


@pytest.mark.parametrize("content", [b"no gzip", gzip.compress(LINES)[:-12]])
def test_a_damaged_file_is_refused_whole(home: Home, tmp_path: Path, content: bytes) -> None:
    with pytest.raises(LogError, match=r"bad\.jsonl\.gz: cannot read the file"):
        publish_file("in", write(tmp_path / "bad.jsonl.gz", content), home)
    assert read("in", home).num_rows == 0


def test_lines_longer_than_a_block_stay_whole(home: Home, tmp_path: Path) -> None:
    long = "x" * (2 * BLOCK)
    file = write(tmp_path / "long.jsonl", f'{{"a": "{long}"}}\n{{}}\n'.encode())
    assert publish_file("in", file, home) == 2
    assert [len(text) for text in read("in", home)["value"].to_pylist()] == [2 * BLOCK + 9, 2]


def test_a_stream_is_published_up_to_what_is_not_text(home: Home) -> None:
    assert publish_lines("in", BytesIO(LINES), home) == 3
    parts = iter([b'{"a": 4}\n{"a"', b": 5}\n", b"\xff\n", b""])

    class Pipe(BytesIO):
        def read1(self, size: int | None = -1) -> bytes:
            return next(parts)

    with pytest.raises(SchemaError, match=r"line 3(?s:.*)first 2 records"):
        publish_lines("in", Pipe(), home)
    assert read("in", home)["value"].to_pylist()[3:] == ['{"a": 4}', '{"a": 5}']


def test_lines_that_come_together_with_one_that_is_not_text_are_published(home: Home) -> None:
    with pytest.raises(SchemaError, match=r"line 4(?s:.*)first 2 records"):
        publish_lines("in", BytesIO(b"1\n\n2\n3\xff\n4\n"), home)
    assert read("in", home)["value"].to_pylist() == ["1", "2"]


def test_an_interrupt_loses_no_line_that_has_come(home: Home) -> None:
    parts = iter([b"1\n2\n3"])

    class Pipe(BytesIO):
        def read1(self, size: int | None = -1) -> bytes:
            for part in parts:
                return part
            signal.raise_signal(signal.SIGINT)
            return b""

    published: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        publish_lines("in", Pipe(), home, on_commit=published.append)
    # The third line may go on.
    assert (published, read("in", home)["value"].to_pylist()) == ([2], ["1", "2"])


def test_an_interrupt_waits_for_the_commit_that_is_being_written(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = Category.append

    def interrupted(category: Category, rows: Iterator[pa.RecordBatch]) -> int:
        signal.raise_signal(signal.SIGINT)
        return append(category, rows)

    monkeypatch.setattr(Category, "append", interrupted)
    monkeypatch.setattr(data, "BATCH_ROWS", 2)
    published: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        publish_lines("in", BytesIO(b"1\n2\n"), home, on_commit=published.append)
    assert (published, read("in", home)["value"].to_pylist()) == ([2], ["1", "2"])


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_a_publisher_writes_what_is_left_when_it_is_closed(home: Home) -> None:
    with Publisher("in", home, batch_rows=1000, batch_seconds=1000) as publisher:
        publisher.send({"a": 1})
        assert publisher.rows == 0
    assert publisher.rows == 1


def test_following_sees_what_comes_later(home: Home) -> None:
    publish("in", ["{}"], home)
    more = iter([["{}", "{}"]])
    batches = read_batches("in", home, follow=True, wait=lambda: publish("in", next(more), home) and None)
    assert [next(batches).num_rows, next(batches).num_rows] == [1, 2]


def test_typed_categories_are_not_published_to(home: Home) -> None:
    home.log().create("typed", pa.schema([("a", pa.int64())]), owner=Owner("shop", "sold"))
    with pytest.raises(SchemaError, match=r"typed rows, which application 'shop' \(stage 'sold'\) writes"):
        publish("typed", ["{}"], home)
    assert [info.owner for info in categories(home)] == ["shop"]


def test_reading_an_evolved_category_gives_null_for_old_rows(home: Home) -> None:
    log = home.log()
    log.create("typed", pa.schema([("a", pa.int64())])).append(pa.table({"a": [1]}))
    log.create("typed", pa.schema([("a", pa.int64()), ("b", pa.string())])).append(
        pa.table({"a": [2], "b": ["x"]})
    )
    assert read("typed", home).to_pylist() == [{"a": 1, "b": None}, {"a": 2, "b": "x"}]


def test_categories_are_described(home: Home) -> None:
    schema = pa.schema([("at", pa.timestamp("us", tz="UTC"))])
    category = home.log().create("typed", schema, time_columns=("at",))
    category.append(pa.table({"at": pa.array([5, 9], pa.timestamp("us", tz="UTC"))}))
    publish("raw", ["{}"], home)
    raw, typed = categories(home)
    assert (raw.name, raw.raw, raw.rows, raw.commits, raw.first_time) == ("raw", True, 1, 1, None)
    assert (typed.rows, typed.first_time, typed.last_time, typed.bytes > 0) == (2, 5, 9, True)


def test_one_process_at_a_time_runs_an_application(home: Home) -> None:
    app = home.application("demo")
    assert not app.is_running()
    with app.running():
        assert app.is_running()
        with pytest.raises(RunError, match="running already"), app.running():
            pass
    assert not app.is_running()


def test_status_tells_a_killed_application_from_a_running_one(home: Home) -> None:
    app = home.application("demo")
    write_json(app.status_file, {"application": "demo", "state": "running", "stages": {}})
    assert api.status(home.root)[0].state == "killed"
    with app.running():
        assert api.status(home.root)[0].state == "running"


def test_damaged_json_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(RunError, match=r"x\.json"):
        read_json(tmp_path / "x.json")
