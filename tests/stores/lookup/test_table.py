"""Lookup tables: upserts, replays, event times, times to live, columns, keys of other types, the cache."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.core.errors import ConfigError, LogError, SchemaError, StoreError
from braid.stores.lookup import LookupStore, keys
from braid.stores.lookup.writer import Upserted
from tests.stores.lookup.samples import KEY, TYPES, VALUE, batches, create, every, ids, rows_of, scores, users


@given(key=batches(max_rows=8, nulls=False), data=st.data())
@settings(max_examples=25)
def test_all_types_round_trip_through_a_table(fresh_home, key, data):
    value = data.draw(batches(max_rows=0)).schema
    value = pa.schema([field.with_name("v" + field.name) for field in value])
    columns = [
        pa.array(data.draw(st.lists(st.none() | TYPES[kind], min_size=len(key), max_size=len(key))), kind)
        for kind in value.types
    ]
    rows = pa.RecordBatch.from_arrays([*key.columns, *columns], schema=pa.schema([*key.schema, *value]))
    with LookupStore(fresh_home()).create("t", key.schema, value) as table:
        table.upsert(rows, writer="w", batch_id=0, now_us=0)
        wanted = dict(zip(rows_of(key), rows_of(rows.select(value.names)), strict=True))
        for _ in ("cold", "warm"):
            found = table.get(key, 0)
            assert found.found.all()
            assert found.values.schema == value
            assert rows_of(found.values) == [wanted[k] for k in rows_of(key)]
        scanned = [row for batch in table.scan(0) for row in rows_of(batch)]
        assert {row[: len(key.schema)] for row in scanned} == set(wanted)
        assert len(scanned) == len(wanted)


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 5), st.none() | st.integers(0, 4)), min_size=1, max_size=6),
        min_size=1,
        max_size=5,
    ),
    st.data(),
)
@settings(max_examples=20)
def test_upserts_equal_one_row_at_a_time_however_batches_are_cut_and_replayed(fresh_home, arrivals, data):
    expected: dict[int, tuple[int, int]] = {}
    with create(fresh_home()) as table:
        for number, arrival in enumerate(arrivals):
            rows = users([key for key, _ in arrival], number, [str(i) for i in range(len(arrival))])
            times = pa.array([time for _, time in arrival], pa.int64())
            for i, (key, time) in enumerate(arrival):
                order = -1 if time is None else time
                if order >= expected.get(key, (-1, 0, 0))[0]:
                    expected[key] = (order, number, i)
            repeated = data.draw(st.integers(0, number))
            for batch_id in (number, number, repeated):
                table.upsert(rows, writer="w", batch_id=batch_id, now_us=0, times=times)
        found = table.get(every(6), 0).values
        assert rows_of(found) == [
            (str(expected[key][2]), expected[key][1]) if key in expected else (None, None) for key in range(6)
        ]


def test_a_replay_changes_nothing(home):
    with create(home) as table:
        first = table.upsert(users([1, 1, None], 1), writer="a", batch_id=7, now_us=0)
        assert first == Upserted(True, written=1, superseded=1, null_keys=1)
        again = table.upsert(users([1, 2], 2), writer="a", batch_id=7, now_us=0)
        # What became of the rows at first is told again, for who was killed before it could be counted.
        assert again == Upserted(False, written=1, superseded=1, null_keys=1)
        assert not table.upsert(users([1], 3), writer="a", batch_id=6, now_us=0).applied
        assert scores(table.get(ids(1, 2), 0)) == [1, None]
        assert table.upsert(users([1], 4), writer="b", batch_id=0, now_us=0).applied
        assert scores(table.get(ids(1), 0)) == [4]
    with LookupStore(home).open("users") as table:
        assert not table.upsert(users([1], 5), writer="a", batch_id=7, now_us=0).applied


def test_rows_are_counted(home):
    with create(home) as table:
        found = table.upsert(users([1, 1, 2, None], 1), writer="w", batch_id=0, now_us=0)
        assert (found.written, found.superseded, found.null_keys) == (2, 1, 1)
        times = pa.array([5, 5], pa.int64())
        table.upsert(users([1, 2], 2), writer="w", batch_id=1, now_us=0, times=times)
        late = table.upsert(users([1, 3], 3), writer="w", batch_id=2, now_us=0, times=pa.array([4, 4]))
        assert (late.written, late.superseded) == (1, 1)
        assert scores(table.get(ids(1, 2, 3), 0)) == [2, 2, 3]


def test_nulls_are_never_there(home):
    with create(home) as table:
        table.upsert(users([None, 1], 1), writer="w", batch_id=0, now_us=0)
        assert scores(table.get(ids(None, 1, None), 0)) == [None, 1, None]
        assert scores(table.get([pa.nulls(2)], 0)) == [None, None]
        assert table.get(ids(), 0).values.num_rows == 0


def test_rows_that_are_older_than_the_ttl_are_gone(home):
    with create(home, ttl=100) as table:
        table.upsert(users([1, 2], 1), writer="w", batch_id=0, now_us=1000)
        table.upsert(users([2], 2), writer="w", batch_id=1, now_us=1050)
        assert scores(table.get(ids(1, 2), 1100)) == [1, 2]
        assert scores(table.get(ids(1, 2), 1101)) == [None, 2]
        assert [b.num_rows for b in table.scan(1101)] == [1]
        assert scores(table.get(ids(1, 2), 1151)) == [None, None]
        assert scores(table.get(ids(1, 2), 1100)) == [1, 2]


def test_a_sweep_removes_what_is_too_old(home):
    with create(home, ttl=100) as table:
        table.upsert(users([1, 2, 3], 1), writer="w", batch_id=0, now_us=1000)
        table.upsert(users([3], 2), writer="w", batch_id=1, now_us=1090)
        assert table.writer().sweep(1100) == 0
        assert table.writer().sweep(1101) == 2
    with LookupStore(home).open("users") as table:
        assert [b["id"].to_pylist() for b in table.scan(1000)] == [[3]]
        # Writing sweeps by itself, once per time to live.
        table.upsert(users([4], 3), writer="w", batch_id=2, now_us=1195)
        table.upsert(users([5], 3), writer="w", batch_id=3, now_us=1201)
        assert [sorted(b["id"].to_pylist()) for b in table.scan(1000)] == [[4, 5]]


def test_an_expired_row_does_not_hold_back_older_events(home):
    with create(home, ttl=100) as table:
        table.upsert(users([1], 1), writer="w", batch_id=0, now_us=1000, times=pa.array([50]))
        table.upsert(users([1], 2), writer="w", batch_id=1, now_us=1101, times=pa.array([40]))
        assert scores(table.get(ids(1), 1101)) == [2]


def test_columns_and_ttl_may_be_added(home):
    with create(home) as table:
        table.upsert(users([1], 1), writer="w", batch_id=0, now_us=0)
    wider = VALUE.append(pa.field("city", pa.string()))
    with LookupStore(home).create("users", KEY, wider, ttl=50) as table:
        rows = users([2], 2).append_column("city", pa.array(["Oslo"]))
        table.upsert(rows, writer="w", batch_id=1, now_us=10)
        assert table.get(ids(1, 2), 10).values["city"].to_pylist() == [None, "Oslo"]
        assert table.settings.ttl == 50
        # A declaration without a column leaves it, and rows without it have NULL.
        with LookupStore(home).open("users") as reader:
            table.upsert(users([2], 3), writer="w", batch_id=2, now_us=10)
            assert reader.get(ids(2), 10).values.to_pylist() == [{"name": "user 2", "score": 3, "city": None}]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (pa.schema([("id", pa.string())]), VALUE, r"the key is \(id int64\) and cannot become \(id string\)"),
        (pa.schema([("id", pa.int64()), ("x", pa.int8())]), VALUE, "cannot become"),
        (KEY, pa.schema([("score", pa.int64())]), "'score' is stored as int32 and cannot become int64"),
        (KEY, pa.schema([("id", pa.int64())]), "'id' occurs twice"),
        (pa.schema([]), VALUE, "needs a key"),
    ],
)
def test_other_changes_are_refused(home, key, value, message):
    create(home).close()
    with pytest.raises(SchemaError, match=message):
        LookupStore(home).create("users", key, value)


def test_a_ttl_must_be_positive(home):
    with pytest.raises(ConfigError, match="keeps nothing"):
        create(home, ttl=0)


def test_keys_may_have_other_types_of_one_family(home):
    store = LookupStore(home)
    key = pa.schema([("a", pa.int32()), ("b", pa.float32()), ("c", pa.decimal128(5, 2)), ("d", pa.date32())])
    with store.create("t", key) as table:
        row = pa.record_batch(
            [
                pa.array([v]).cast(f.type)
                for v, f in zip([1, 0.5, Decimal("2.00"), date(1970, 1, 4)], key, strict=True)
            ],
            schema=key,
        )
        table.upsert(row, writer="w", batch_id=0, now_us=0)
        a = pa.array([1, 2**40 + 1, 1, 1, 1])
        b = pa.array([0.5, 0.5, 0.1, 0.5, 0.5])
        c = pa.array([Decimal(text) for text in ("2", "2", "2", "2.0001", "2")], pa.decimal128(20, 4))
        d = pa.array([3] * 5, pa.int32()).cast(pa.date32()).cast(pa.date64())
        assert table.get([a, b, c, d], 0).found.tolist() == [True, False, False, False, True]
        with pytest.raises(SchemaError, match=r"'a' is int32 and cannot be compared with string"):
            table.get([a.cast(pa.string()), b, c, d], 0)


def test_wrong_columns_are_named(home):
    with create(home) as table:
        with pytest.raises(SchemaError, match=r"the key is \(id\), not \(key\)"):
            table.get(pa.record_batch({"key": [1]}), 0)
        with pytest.raises(SchemaError, match=r"the key is \(id\), not \(2 arrays\)"):
            table.get([pa.array([1]), pa.array([1])], 0)
        for rows, message in (
            (pa.record_batch({"id": [1], "nmae": ["x"]}), "no column 'nmae'"),
            (pa.record_batch({"name": ["x"]}), "key column 'id' is missing"),
            (pa.record_batch({"id": ["1"]}), "'id' is int64, but the rows have string"),
            (pa.record_batch({"id": [1], "score": [2**40]}), "value of column 'score' is not int32"),
        ):
            with pytest.raises(SchemaError, match=message):
                table.upsert(rows, writer="w", batch_id=0, now_us=0)
        with pytest.raises(SchemaError, match="1 event times of type string for 1 rows"):
            table.upsert(users([1], 1), writer="w", batch_id=0, now_us=0, times=pa.array(["x"]))
        assert table.writer().last_batch("w") is None
    with pytest.raises(SchemaError, match="no value column 'nmae'"):
        LookupStore(home).open("users", ["nmae"]).get(ids(1), 0)


def test_an_unknown_table_lists_the_others(home):
    store = LookupStore(home)
    with pytest.raises(StoreError, match="load one"):
        store.open("users")
    create(home)
    store.create("cities", KEY)
    with pytest.raises(StoreError, match=r"did you mean 'users'\?.*cities, users"):
        store.open("user")
    with pytest.raises(LogError, match="not valid"):
        store.open("../users")
    assert store.tables() == ["cities", "users"]


def test_there_is_one_writer(home):
    with create(home) as table:
        table.upsert(users([1], 1), writer="w", batch_id=0, now_us=0)
        other = LookupStore(home).open("users")
        assert scores(other.get(ids(1), 0)) == [1]
        with pytest.raises(StoreError, match="being written by another process"):
            other.upsert(users([1], 2), writer="w", batch_id=1, now_us=0)
    with other:
        assert other.upsert(users([1], 2), writer="w", batch_id=1, now_us=0).applied


@pytest.mark.parametrize("capacity", [0, 3000, 1 << 20])
@pytest.mark.parametrize("hashes", [2**64, 7])
def test_the_cache_is_never_wrong(home, monkeypatch, capacity, hashes):
    real = keys.hash_rows
    monkeypatch.setattr(keys, "hash_rows", lambda columns: real(columns) % np.int64(min(hashes, 2**63 - 1)))
    random = np.random.default_rng(1)
    create(home).close()
    store = LookupStore(home)
    with store.open("users", cache_bytes=capacity) as table:
        known: dict[int, int] = {}
        for number in range(30):
            if number % 10 == 0:
                some = random.integers(0, 100, 40).tolist()
                known |= dict.fromkeys(some, number)
                table.upsert(users(some, number), writer="w", batch_id=number, now_us=0)
            wanted = random.zipf(1.5, 50).clip(0, 120).tolist()
            assert scores(table.get(ids(*wanted), 0)) == [known.get(key) for key in wanted]


def test_only_columns_that_are_wanted_are_read(home):
    with create(home) as table:
        table.upsert(users([1], 1), writer="w", batch_id=0, now_us=0)
        with LookupStore(home).open("users", ["score"]) as reader:
            assert reader.get(ids(1), 0).values.to_pylist() == [{"score": 1}]


def test_large_batches_are_looked_up_in_parts(home):
    count = 150_000
    with create(home) as table:
        rows = pa.table({"id": np.arange(count), "score": np.arange(count, dtype=np.int32)})
        table.upsert(rows, writer="w", batch_id=0, now_us=0)
        probes = np.random.default_rng(1).permutation(2 * count)
        found = table.get([pa.array(probes)], 0)
        assert np.array_equal(found.found, probes < count)
        assert np.array_equal(found.values["score"].filter(pa.array(found.found)), probes[probes < count])
        assert sum(batch.num_rows for batch in table.scan(0)) == count
