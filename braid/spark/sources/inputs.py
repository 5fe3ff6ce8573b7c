"""Inputs of an application as frames: categories, files, Kafka topics; streaming, or a part of them once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StringType, StructField, StructType

from braid.core.columns import FILE_CLOCK, FILE_PATH, NOTE, RAW, RAW_COLUMN
from braid.core.connectors import SourceKind
from braid.core.errors import RunError, SchemaError
from braid.engine.offsets import ReadOffset
from braid.engine.slicing_again import Part
from braid.log.category import Category
from braid.log.log import Log
from braid.plan.stages.base import Source
from braid.spark.paths import as_pattern, is_pattern, located, unescaped
from braid.spark.schemas import arrow_schema, spark_schema
from braid.spark.sources.category import CategorySource
from braid.spark.sources.csv_files import CsvFiles
from braid.spark.sources.parse import parse_json, parse_texts, parse_typed
from braid.spark.sources.seen_files import is_hidden

KAFKA_CLASS = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
_BINARY_FILES = "path string, modificationTime timestamp, length bigint, content binary"
FILE_BYTES = 256 * 2**20
"""Input of a micro-batch over files, unless the program says otherwise: large, but the join can begin."""


@dataclass(frozen=True)
class Inputs:
    """Opens sources in one session.

    Parameters
    ----------
    session
        The session.
    root
        Root of the log.
    max_rows
        Most rows that a micro-batch takes from a category.
    read_file
        Where the source of a category says how far a micro-batch reads, if the sink needs it.
    cadence_file
        Where the driver says how often to run, if it does.
    tables
        Folders of Parquet files that have been looked at.
    part
        What to read once; None reads sources as streams.
    """

    session: SparkSession
    root: str
    max_rows: int
    read_file: str | None = None
    cadence_file: str | None = None
    tables: dict[str, DataFrame] = field(default_factory=dict)
    part: Part | None = None

    def open(self, source: Source, required: Sequence[str]) -> DataFrame:
        """The declared columns of a source, with `__raw` and `__note`; JSON records must have `required`."""
        if source.kind is SourceKind.SCRIBE:
            return self._scribe(source, required)
        if source.kind is SourceKind.KAFKA:
            frame = self._kafka(source)
            return parse_json(frame, source.columns, required, source.time_unit, source.time)
        return self._files(source, required)

    def category(self, category: Category, columns: Sequence[str], *, internal: bool) -> DataFrame:
        """Columns of a category as they are stored; `internal` if a stage of the application writes it."""
        schema = StructType([spark_schema(category.schema)[name] for name in columns])
        options: dict[str, str | int | None] = {
            "root": self.root,
            "category": category.name,
            "max_rows": self.max_rows,
            "tasks": self.session.sparkContext.defaultParallelism,
            "internal": str(internal).lower(),
            "read_file": self.read_file,
            "cadence_file": self.cadence_file,
        }
        if self.part is not None:
            for name, position in (("start", self.part.first), ("end", self.part.end)):
                options[name] = json.dumps(ReadOffset(position).to_json())
        reader = self._reader().format(CategorySource.name()).schema(schema)
        for name, value in options.items():
            if value is not None:
                reader = reader.option(name, value)
        return reader.load()

    def parquet_schema(self, source: Source) -> pa.Schema | None:
        """The declared columns of Parquet files as they are stored; None for other sources and layouts."""
        if source.kind is not SourceKind.FILES or source.format != "parquet":
            return None
        frame = self._table(source)
        names = [column.name for column in source.columns]
        for file in map(unescaped, frame.inputFiles()):
            filesystem, path = located(file)
            if is_hidden(path.rpartition("/")[2]) or not filesystem.get_file_info(path).size:
                continue
            try:
                own = pq.read_schema(path, filesystem=filesystem)
            except (OSError, pa.ArrowException) as error:
                raise _unreadable(source, str(error), file) from error
            if not set(names) <= set(own.names):
                return None
            return arrow_schema(StructType([frame.schema[name] for name in names]))
        return None

    def paths(self, source: Source) -> DataFrame:
        """The files of a source, by name, each with the clock of its micro-batch."""
        frame = self._load(source, "binaryFile", _BINARY_FILES)
        named = frame.select(F.col(FILE_PATH), F.unix_micros(F.current_timestamp()).alias(FILE_CLOCK))
        return named.coalesce(self.session.sparkContext.defaultParallelism)

    def _scribe(self, source: Source, required: Sequence[str]) -> DataFrame:
        category = Log(self.root).open(source.name)
        if category.raw:
            frame = self.category(category, [RAW_COLUMN], internal=source.internal)
            return parse_json(frame, source.columns, required, source.time_unit, source.time)
        names = [column.name for column in source.columns]
        unknown = [name for name in names if name not in category.schema.names]
        if unknown:
            raise SchemaError(
                f"column {unknown[0]!r} does not exist",
                where=f"category {source.name}",
                hint=f"existing columns: {', '.join(category.schema.names)}",
            )
        frame = self.category(category, names, internal=source.internal)
        return parse_typed(frame, source.columns, source.time_unit, source.time)

    def _files(self, source: Source, required: Sequence[str]) -> DataFrame:
        try:
            if source.format == "json":
                frame = self._load(source, "text")
                return parse_json(frame, source.columns, required, source.time_unit, source.time)
            if source.format == "csv":
                frame = self._csv(source)
                return parse_texts(frame, source.columns, source.time_unit, source.time)
            stored = self._table(source).schema
            names = [column.name for column in source.columns]
            unknown = [name for name in names if name not in stored.fieldNames()]
            if unknown:
                raise SchemaError(
                    f"column {unknown[0]!r} does not exist",
                    where=source.name,
                    hint=f"existing columns: {', '.join(stored.fieldNames())}",
                )
            frame = self._load(source, "parquet", StructType([stored[name] for name in names]))
        except (PySparkException, Py4JJavaError) as error:
            raise _unreadable(source, _told(error), source.name) from error
        return parse_typed(frame, source.columns, source.time_unit, source.time)

    def _table(self, source: Source) -> DataFrame:
        """Parquet files as they are; Spark runs a job to find out their schema, so once is enough."""
        if source.name not in self.tables:
            self.tables[source.name] = self.session.read.parquet(source.name)
        return self.tables[source.name]

    def _load(self, source: Source, kind: str, schema: StructType | str | None = None) -> DataFrame:
        """Files of a source, as Spark reads files of a kind."""
        reader = self._reader().format(kind)
        reader = reader if schema is None else reader.schema(schema)
        options = {name.lower(): value for name, value in source.options}
        if "maxfilespertrigger" not in options:
            options.setdefault("maxbytespertrigger", str(FILE_BYTES))
        files = () if self.part is None else self.part.files
        if any("=" in file for file in files) and not is_pattern(source.name):
            options["basepath"] = source.name  # as Spark does for a micro-batch of files in partitions
        for name, value in options.items():
            reader = reader.option(name, value)
        if isinstance(reader, DataFrameReader):
            return reader.load([as_pattern(file) for file in files])
        return reader.load(source.name)

    def _reader(self) -> DataFrameReader | DataStreamReader:
        return self.session.readStream if self.part is None else self.session.read

    def _csv(self, source: Source) -> DataFrame:
        """Texts of CSV files, each by its own header; the first file must have the columns."""
        options = {name.lower(): value for name, value in source.options}
        names = tuple(column.name for column in source.columns)
        header = options.get("header", "true").lower() == "true"
        files = CsvFiles(names, header, options.get("delimiter", ","))
        for path in sorted(self.session.read.format("binaryFile").load(source.name).inputFiles())[:1]:
            found = files.names(unescaped(path))
            unknown = [name for name in names if found is not None and name not in found]
            if unknown and found is not None:
                raise SchemaError(
                    f"column {unknown[0]!r} is not in the header",
                    where=path,
                    hint=f"existing columns: {', '.join(found)}",
                )
        schema = StructType([StructField(name, StringType()) for name in (*names, RAW, NOTE)])
        return self.paths(source).mapInArrow(files.read, schema)

    def _kafka(self, source: Source) -> DataFrame:
        require_kafka(self.session, source.name)
        options = {"startingOffsets": "earliest", **kafka_options(dict(source.options))}
        reader = self.session.readStream.format("kafka").option("subscribe", source.name)
        for name, value in options.items():
            reader = reader.option(name, value)
        return reader.load().selectExpr("CAST(value AS STRING) AS value")


def _unreadable(source: Source, why: str, where: str) -> RunError:
    return RunError(
        f"cannot read {source.format} files: {why}",
        where=where,
        hint="check the path: it must exist when the application starts, with files of that format",
    )


def _told(error: PySparkException | Py4JJavaError) -> str:
    """What Spark says of an error, without where it was raised; not every one has a class in Python."""
    if isinstance(error, Py4JJavaError):
        return str(error.java_exception.getMessage())
    return error.getMessage() or str(error)


def require_kafka(session: SparkSession, topic: str) -> None:
    """Raise `RunError` unless Spark's Kafka connector is on the classpath."""
    jvm = session.sparkContext._jvm
    assert jvm is not None
    try:
        jvm.org.apache.spark.util.Utils.classForName(KAFKA_CLASS, True, False)
    except Exception as error:
        version = session.version
        raise RunError(
            f"topic {topic!r} needs Spark's Kafka connector, which is not on the classpath",
            hint=f"set spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:{version}",
        ) from error


def kafka_options(options: dict[str, str]) -> dict[str, str]:
    """Options as Spark's connector names them; `brokers` is short for its longest one."""
    brokers = options.pop("brokers", None)
    return options if brokers is None else {"kafka.bootstrap.servers": brokers, **options}
