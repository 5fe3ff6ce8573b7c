"""Publishing, reading and listing categories."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from braid import api
from braid.api.data import Publisher, categories, publish, read, read_batches
from braid.core.errors import RunError, SchemaError
from braid.home.files import read_json, write_json
from braid.home.paths import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.at(tmp_path)


def test_records_come_back_in_order(home: Home) -> None:
    assert publish("in", [{"a": 1}, '{"a": 2}', {"a": 3}], home, batch_rows=2) == 3
    assert [json.loads(t)["a"] for t in read("in", home)["value"].to_pylist()] == [1, 2, 3]
    assert home.log().open("in").latest() == 1
    assert read("in", home, limit=2).num_rows == 2
    assert api.read("in", home.root).num_rows == 3


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
    home.log().create("typed", pa.schema([("a", pa.int64())]))
    with pytest.raises(SchemaError, match="typed rows"):
        publish("typed", ["{}"], home)


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
