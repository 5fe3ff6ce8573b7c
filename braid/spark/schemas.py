"""Spark SQL types and Arrow types: the schemas of categories, seen from both sides."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from braid.core.errors import SchemaError


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema in which rows of a Spark schema are stored; every column is nullable."""
    try:
        converted = to_arrow_schema(schema, timezone="UTC", prefers_large_types=False)
    except Exception as error:
        raise SchemaError(
            f"a column has a type that the log cannot store: {error}",
            hint="cast it to a number, string, boolean, binary, date, timestamp, array, map or struct",
        ) from error
    return pa.schema([pa.field(field.name, field.type) for field in converted])


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema that reads rows of an Arrow schema."""
    try:
        return from_arrow_schema(schema, prefer_timestamp_ntz=True)
    except Exception as error:
        raise SchemaError(
            f"a column has a type that Spark cannot read: {error}",
            hint="rewrite the category with supported types",
        ) from error
