"""The function table against Spark itself: names, and types of expressions."""

from __future__ import annotations

import pytest

from braid.lang.types.functions import MANY_ROWS, NEIGHBOURS, OUTSIDE, REPLAY, signatures
from tests.lang.test_infer import COLUMNS, SPARK_TYPES

pytestmark = pytest.mark.spark

FORMS = {"and", "between", "case", "cast", "extract", "if", "in", "not", "or", "when"}
"""Names that Spark lists as functions and PQL reads as syntax."""


@pytest.fixture(scope="module")
def spark():
    from pyspark.sql import SparkSession  # noqa: TID251 - the engine that the table must agree with

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    yield session
    session.stop()


def test_every_function_of_spark_is_known(spark):
    theirs = {row[0] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect() if row[0].isidentifier()}
    assert theirs - set(signatures()) - OUTSIDE - REPLAY - MANY_ROWS - FORMS == set()
    assert set(signatures()) - theirs == {"timestampadd", "timestampdiff"} | NEIGHBOURS


def test_spark_gives_the_types_of_the_fixture(spark):
    nulls = ", ".join(f"CAST(NULL AS {type_}) AS {name}" for name, type_ in COLUMNS.items())
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW t AS SELECT {nulls}")
    theirs = {
        expression: spark.sql(f"SELECT {expression} AS o FROM t").schema[0].dataType.simpleString()
        for expression, _ in SPARK_TYPES
    }
    assert theirs == dict(SPARK_TYPES)
