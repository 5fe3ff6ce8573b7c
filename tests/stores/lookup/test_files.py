"""Loading Parquet, CSV and JSON lines."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from braid.core.errors import SchemaError, StoreError
from braid.stores.lookup import LookupStore, load_file
from tests.stores.lookup.samples import create, ids, scores, users

ROWS = pa.table(
    {
        "id": [1, 2, 2, 3],
        "name": ["a", 'b "quoted", with a comma', "b", None],
        "score": [1.5, 2.5, -2.5, None],
        "at": [datetime(2026, 1, 31, 12, minute) for minute in range(4)],
    }
)
LAST = [
    {"name": "a", "score": 1.5, "at": datetime(2026, 1, 31, 12, 0)},
    {"name": "b", "score": -2.5, "at": datetime(2026, 1, 31, 12, 2)},
]


def write(rows: pa.Table, path: Path) -> Path:
    if path.suffix == ".parquet":
        parquet.write_table(rows, path)
    elif path.suffix == ".csv":
        csv.write_csv(rows, path)
    else:
        path.write_text("".join(json.dumps(row, default=str) + "\n" for row in rows.to_pylist()))
    return path


@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv", "rows.jsonl"])
def test_a_file_becomes_a_table(home, name):
    store = LookupStore(home)
    path = write(ROWS, home / name)
    loaded = load_file(store, path, "t", ["id"], now_us=0)
    assert (loaded.rows, loaded.replaced) == (3, True)
    with store.open("t") as table:
        assert table.settings.key == pa.schema([("id", pa.int64())])
        assert table.settings.value.field("at").type == pa.timestamp("us")
        found = table.get(ids(1, 2, 4), 0)
        assert found.values.to_pylist() == [*LAST, dict.fromkeys(LAST[0])]


@pytest.mark.parametrize(
    ("ids", "kind", "keys"),
    [
        (("01234", "1234"), pa.string(), ["01234", "1234"]),
        (("1234", "01234"), pa.string(), ["1234", "01234"]),
        (("1.0", "1.00"), pa.string(), ["1.0", "1.00"]),
        (("1e2", "100"), pa.string(), ["1e2", "100"]),
        (("true", "True"), pa.string(), ["true", "True"]),
        (("-7", "0"), pa.int64(), [-7, 0]),
        (("0.5", "10"), pa.float64(), [0.5, 10.0]),
    ],
)
def test_keys_of_csv_files_that_differ_stay_apart(home, ids, kind, keys):
    (home / "r.csv").write_text("id,zip,n\n" + "".join(f'{key},0815,"a\nb"\n' for key in ids))
    store = LookupStore(home)
    assert load_file(store, home / "r.csv", "t", ["id"], now_us=0).rows == 2
    with store.open("t") as table:
        assert table.settings.key.types == [kind]
        found = table.get([pa.array(keys, kind)], 0).values.to_pylist()
        assert found == [{"zip": "0815", "n": "a\nb"}] * 2


@pytest.mark.parametrize(("ids", "kind"), [(("1", "", "2"), pa.int64()), (("01", "", "1"), pa.string())])
def test_a_row_without_a_key_changes_no_type_and_is_left_out(home, ids, kind):
    (home / "r.csv").write_text("id,n\n" + "".join(f"{key},a\n" for key in ids))
    store = LookupStore(home)
    assert load_file(store, home / "r.csv", "t", ["id"], now_us=0).rows == 2
    with store.open("t") as table:
        assert table.settings.key.types == [kind]


def test_the_types_of_a_table_hold_for_files(home):
    store = LookupStore(home)
    with store.create("t", pa.schema([("id", pa.string())]), pa.schema([("n", pa.int64())]), None):
        pass
    (home / "r.csv").write_text("id,n\n01234,1\n1234,2\n")
    assert load_file(store, home / "r.csv", "t", ["id"], now_us=0).rows == 2
    (home / "r.jsonl").write_text('{"id": "07", "n": 1}\n{"id": "7", "n": 2}\n')
    assert load_file(store, home / "r.jsonl", "t", ["id"], now_us=0).rows == 2
    with store.open("t") as table:
        found = table.get([pa.array(["01234", "1234", "07", "7"])], 0).values["n"].to_pylist()
        assert found == [1, 2, 1, 2]


def test_a_composite_key_in_the_order_named(home):
    store = LookupStore(home)
    load_file(store, write(ROWS, home / "r.csv"), "t", ["name", "id"], now_us=0)
    with store.open("t") as table:
        assert table.settings.key.names == ["name", "id"]
        found = table.get({"id": pa.array([2, 2]), "name": pa.array(["b", "x"])}, 0)
        assert found.values["score"].to_pylist() == [-2.5, None]


def test_loading_again_adds_and_replacing_removes(home):
    store = LookupStore(home)
    load_file(store, write(ROWS, home / "a.csv"), "t", ["id"], now_us=0, ttl=1000)
    # Types come from the table, so that the digits of a name stay a text.
    more = write(pa.table({"id": [3, 4], "name": ["007", "4"]}), home / "b.csv")
    loaded = load_file(store, more, "t", ["id"], now_us=5)
    assert (loaded.rows, loaded.replaced) == (2, False)
    reader = store.open("t")
    assert reader.get(ids(1, 3, 4), 5).values["name"].to_pylist() == ["a", "007", "4"]
    assert reader.settings.ttl == 1000
    assert load_file(store, more, "t", ["id"], now_us=6).rows == 2
    replaced = load_file(
        store, write(pa.table({"id": ["x"], "n": [1]}), home / "c.jsonl"), "t", ["id"], replace=True, now_us=7
    )
    assert replaced.replaced
    assert reader.get([pa.array(["x", "y"])], 7).values.to_pylist() == [{"n": 1}, {"n": None}]
    assert reader.settings.ttl is None
    assert [path.name for path in reader.folder.glob("data-*")] == [reader.settings.data]


def test_replacing_forgets_no_writer(home):
    with create(home) as table:
        table.upsert(users([1], 1), writer="w", batch_id=5, now_us=0)
    store = LookupStore(home)
    path = write(pa.table(users([2], 2)), home / "r.parquet")
    load_file(store, path, "users", ["id"], replace=True, now_us=0)
    with store.open("users") as table:
        assert not table.upsert(users([1], 1), writer="w", batch_id=5, now_us=0).applied
        assert scores(table.get(ids(1, 2), 0)) == [None, 2]


def test_a_failed_load_leaves_the_table_as_it_was(home):
    store = LookupStore(home)
    load_file(store, write(ROWS, home / "a.parquet"), "t", ["id"], now_us=0)
    path = home / "b.parquet"
    with parquet.ParquetWriter(path, pa.schema([("id", pa.int64()), ("n", pa.string())])) as file:
        for start in range(3):
            file.write_table(pa.table({"id": [start] * 1000, "n": ["x" * 50] * 1000}, schema=file.schema))
    data = bytearray(path.read_bytes())
    data[: len(data) // 2] = bytes(len(data) // 2)
    path.write_bytes(data)
    with pytest.raises(StoreError, match=r"b\.parquet"):
        load_file(store, path, "t", ["id"], replace=True, now_us=0)
    with store.open("t") as table:
        assert table.get(ids(1, 2), 0).values.to_pylist() == LAST
        table.writer()
        assert len(list(table.folder.glob("data-*"))) == 1


@pytest.mark.parametrize(
    ("name", "content", "key", "message"),
    [
        ("r.csv", "id,name\n1,a\n", "idd", "no key column 'idd'.*\n.*columns of the file: id, name"),
        ("r.csv", "id,id\n1,a\n", "id", "occurs twice"),
        ("r.csv", "", "id", r"r\.csv"),
        ("r.jsonl", '{"id": 1}\n{"id": ', "id", r"r\.jsonl"),
        ("r.jsonl", '{"id": 1, "tags": [1]}\n', "id", "'tags' has type list"),
        ("r.parquet", "no such thing", "id", r"r\.parquet"),
        ("r.txt", "id", "id", r"cannot be told from its name(?s:.*)\.parquet"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(home, name, content, key, message):
    (home / name).write_text(content)
    with pytest.raises((StoreError, SchemaError), match=message):
        load_file(LookupStore(home), home / name, "t", [key], now_us=0)
    assert LookupStore(home).tables() == []


def test_a_missing_file_is_named(home):
    with pytest.raises(StoreError, match=r"none\.csv"):
        load_file(LookupStore(home), home / "none.csv", "t", ["id"], now_us=0)


def test_columns_without_values_and_unusual_types_are_loaded(home):
    rows = pa.table(
        {
            "id": pa.array([1], pa.uint32()),
            "none": pa.nulls(1),
            "word": pa.array(["x"]).dictionary_encode(),
            "long": pa.array(["y"], pa.large_string()),
            "ns": pa.array([1_500], pa.timestamp("ns", "Europe/Oslo")),
            "day": pa.array([86_400_000], pa.date64()),
        }
    )
    store = LookupStore(home)
    load_file(store, write(rows, home / "r.parquet"), "t", ["id"], now_us=0)
    with store.open("t") as table:
        assert table.settings.key.types == [pa.int64()]
        text, time = pa.string(), pa.timestamp("us", "UTC")
        assert table.settings.value.types == [text, text, text, time, pa.date32()]
        assert table.get(ids(1), 0).values["ns"].cast(pa.int64()).to_pylist() == [1]
