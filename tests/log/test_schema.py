from __future__ import annotations

import pyarrow as pa
import pytest

from braid.core.errors import SchemaError
from tests.log.samples import SCHEMA, everything, multiset, rows


def test_settings_come_back(log):
    schema = pa.schema(
        [("__hash", pa.int64()), ("at", pa.timestamp("us")), ("s", pa.struct([("a", pa.int8())]))]
    )
    created = log.create("c", schema, shards=3, time_columns=("at",))
    opened = log.open("c")
    assert opened.settings == created.settings
    assert (opened.schema, opened.shards, opened.time_columns, opened.raw) == (schema, 3, ("at",), False)


def test_columns_are_added_by_name_and_never_removed(log, category):
    category = log.create("app.left", pa.schema([("z", pa.int8()), ("n", pa.int32())]))
    assert category.schema.names == [*SCHEMA.names, "z"]
    assert log.open("app.left").schema.names == [*SCHEMA.names, "z"]
    assert category.shards == 4


def test_a_changed_type_is_refused_and_changes_nothing(log, category):
    with pytest.raises(SchemaError) as caught:
        log.create("app.left", pa.schema([("__hash", pa.int64()), ("new", pa.int8()), ("n", pa.int64())]))
    message = str(caught.value)
    for part in ("category app.left", "column 'n'", "int32", "int64", "cast it to int32"):
        assert part in message
    assert log.open("app.left").schema.names == SCHEMA.names


def test_the_shard_count_may_change_and_old_rows_stay_readable(log, category):
    table = rows(100)
    category.append(table)
    wider = log.create("app.left", SCHEMA, shards=16)
    wider.append(table)
    assert wider.shards == 16
    assert multiset(everything(wider.reader())) == multiset(pa.concat_tables([table, table]))


def test_nullability_and_metadata_do_not_matter(log, category):
    schema = pa.schema([pa.field("n", pa.int32(), nullable=False, metadata={"a": "b"})], metadata={"c": "d"})
    assert log.create("app.left", schema).schema == SCHEMA


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"schema": pa.schema([("__hash", pa.int32())])}, "column '__hash' has type int32"),
        ({"schema": pa.schema([("__time", pa.string())])}, "column '__time' has type string"),
        ({"schema": pa.schema([("a", pa.int8()), ("a", pa.int8())])}, "column 'a' occurs twice"),
        ({"schema": pa.schema([])}, "needs columns"),
        ({}, "needs columns"),
        ({"schema": pa.schema([("a", pa.int8())]), "raw": True}, "one string column 'value', not a"),
        (
            {"schema": pa.schema([("a", pa.list_(pa.dictionary(pa.int8(), pa.string())))])},
            "dictionaries inside nested types",
        ),
    ],
)
def test_impossible_categories_are_refused(log, arguments, message):
    with pytest.raises(SchemaError, match=message):
        log.create("c", **arguments)
    assert log.categories() == []


def test_raw_and_typed_do_not_mix(log, category):
    with pytest.raises(SchemaError, match="is typed and cannot become raw"):
        log.create("app.left", raw=True)


def test_hashes_cannot_be_added_later(log):
    log.create("c", pa.schema([("a", pa.int8())]))
    with pytest.raises(SchemaError, match="rows without __hash"):
        log.create("c", SCHEMA)
