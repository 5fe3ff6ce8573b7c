"""What workers of an engine call."""

from __future__ import annotations

import pyarrow as pa
import pytest

from braid.core.errors import SchemaError, StoreError
from braid.stores.lookup import LookupStore, apply, enrich
from tests.stores.lookup.samples import KEY, VALUE, create, users

EVENTS = pa.record_batch({"event": ["a", "b", "c", "d"], "user": pa.array([2, None, 1, 9], pa.int32())})


@pytest.fixture
def table(home):
    create(home).close()
    apply(home, "users", [users([1], 10), users([2], 20)], writer="w", batch_id=0, now_us=0)
    return home


def enriched(home, *, inner, **columns):
    return enrich(home, "users", EVENTS, {"id": EVENTS["user"]}, columns, inner=inner, now_us=0).to_pydict()


def test_left_gives_nulls_and_inner_drops(table):
    left = enriched(table, inner=False, who="name", found_id="id", points="score")
    assert left == {
        "event": ["a", "b", "c", "d"],
        "user": [2, None, 1, 9],
        "who": ["user 2", None, "user 1", None],
        "found_id": [2, None, 1, None],
        "points": [20, None, 10, None],
    }
    assert enriched(table, inner=True, points="score") == {
        "event": ["a", "c"],
        "user": [2, 1],
        "points": [20, 10],
    }
    assert enriched(table, inner=True) == {"event": ["a", "c"], "user": [2, 1]}


def test_the_next_batch_sees_what_was_written_since(table):
    assert enriched(table, inner=True, points="score")["points"] == [20, 10]
    apply(table, "users", [users([9], 90)], writer="w", batch_id=1, now_us=0)
    assert enriched(table, inner=True, points="score")["points"] == [20, 10, 90]


def test_a_batch_is_applied_once(table):
    again = apply(table, "users", [users([1], 11)], writer="w", batch_id=0, now_us=0)
    assert not again.applied
    assert apply(table, "users", [], writer="w", batch_id=1, now_us=0).written == 0
    assert enriched(table, inner=True, points="score")["points"] == [20, 10]


@pytest.mark.parametrize("stored", [False, True])
def test_event_times_decide(home, stored):
    value = VALUE.append(pa.field("at", pa.timestamp("us", "UTC"))) if stored else VALUE
    LookupStore(home).create("users", KEY, value).close()
    for number, (score, at) in enumerate([(1, 5), (2, 7), (3, 6)]):
        rows = users([1], score).append_column("at", pa.array([at], pa.timestamp("us", "UTC")))
        apply(home, "users", [rows], writer="w", batch_id=number, now_us=0, time_column="at")
    events = pa.record_batch({"user": [1]})
    found = enrich(home, "users", events, {"id": events["user"]}, {"s": "score"}, inner=True, now_us=0)
    assert found.to_pydict() == {"user": [1], "s": [2]}


def test_mistakes_are_named(table):
    for columns, message in (
        ({"event": "name"}, "has a column 'event' already"),
        ({"x": "nmae"}, "no value column 'nmae'"),
    ):
        with pytest.raises(SchemaError, match=message):
            enriched(table, inner=True, **columns)
    with pytest.raises(SchemaError, match=r"the key is \(id\), not \(user\)"):
        enrich(table, "users", EVENTS, {"user": EVENTS["user"]}, {}, inner=True, now_us=0)
    with pytest.raises(StoreError, match="did you mean 'users'"):
        enrich(table, "user", EVENTS, {"id": EVENTS["user"]}, {}, inner=True, now_us=0)
    with pytest.raises(StoreError, match="no lookup table 'x'"):
        apply(table, "x", [users([1], 1)], writer="w", batch_id=0, now_us=0)
    with pytest.raises(SchemaError, match="no column 'at'"):
        apply(table, "users", [users([1], 1)], writer="w", batch_id=9, now_us=0, time_column="at")
