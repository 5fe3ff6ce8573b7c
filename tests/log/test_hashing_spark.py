"""The hash against the one it must equal. Prints, on failure, what to put into `test_hashing.GOLDEN`."""

from __future__ import annotations

import pyarrow as pa
import pytest

from braid.log import hash_rows
from tests.log.keys import COLUMNS

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark():
    from pyspark.sql import SparkSession  # noqa: TID251 - the engine that the hash must agree with

    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    yield session
    session.stop()


def hashed_by_spark(spark, columns):
    table = pa.table(columns, names=[f"c{i}" for i in range(len(columns))])
    frame = spark.createDataFrame(table).coalesce(1)
    return [row[0] for row in frame.selectExpr(f"xxhash64({', '.join(table.column_names)})").collect()]


def test_each_type_hashes_as_in_spark(spark):
    ours = {name: hash_rows([column]).tolist() for name, column in COLUMNS.items()}
    assert ours == {name: hashed_by_spark(spark, [column]) for name, column in COLUMNS.items()}


def test_composite_keys_hash_as_in_spark(spark):
    columns = [column.take(pa.array([i % len(column) for i in range(10)])) for column in COLUMNS.values()]
    assert hash_rows(columns).tolist() == hashed_by_spark(spark, columns)
