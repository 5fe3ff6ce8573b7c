"""Flink SQL's interval join, by PyFlink on a cluster of one process, with heap or RocksDB state."""

from __future__ import annotations

import time
from pathlib import Path

from common import Job, emit, finish, job
from pyflink.common import Configuration
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.java_gateway import get_gateway
from pyflink.table import DataTypes, Schema, StreamTableEnvironment, Table
from pyflink.table.types import _to_java_data_type

BACKENDS = {"heap": "hashmap", "rocksdb": "rocksdb"}
CHECKPOINT_SECONDS = 10
REPORT_SECONDS = 2


def environment(given: Job, checkpoints: str) -> StreamTableEnvironment:
    """Two slots, checkpoints every ten seconds."""
    settings = {
        "parallelism.default": "2",
        "taskmanager.numberOfTaskSlots": "2",
        "taskmanager.memory.network.min": "128m",
        "taskmanager.memory.network.max": "128m",
        "taskmanager.memory.managed.size": "1g" if given.state == "rocksdb" else "64m",
        "pipeline.object-reuse": "true",
        "state.backend.type": BACKENDS[given.state],
        "execution.checkpointing.incremental": "true" if given.state == "rocksdb" else "false",
        "execution.checkpointing.interval": f"{CHECKPOINT_SECONDS} s",
        "execution.checkpointing.dir": f"file://{checkpoints}",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "execution.checkpointing.checkpoints-after-tasks-finish": "true",
        "table.local-time-zone": "UTC",
        "rest.bind-port": "0",
        "io.tmp.dirs": given.work,
    }
    if given.mode == "resume":
        done = sorted(Path(checkpoints).glob("*/chk-*/_metadata"), key=lambda path: path.stat().st_mtime)
        settings["execution.state-recovery.path"] = f"file://{done[-1].parent}"
    configuration = Configuration()
    for name, value in settings.items():
        configuration.set_string(name, value)
    streams = StreamExecutionEnvironment.get_execution_environment(configuration)
    return StreamTableEnvironment.create(streams)


def source(tables: StreamTableEnvironment, given: Job, folder: str, delay: int, name: str) -> Table:
    """A folder as a table with a watermark."""
    kinds = {"id": DataTypes.BIGINT(), "t": DataTypes.TIMESTAMP_LTZ(3), "payload": DataTypes.DOUBLE()}
    row = DataTypes.ROW(
        [DataTypes.FIELD(column, kinds.get(column, DataTypes.STRING())) for column in given.query.columns]
    )
    jvm = get_gateway().jvm
    streams = tables._get_j_env()
    stream = jvm.bench.Files.stream(
        streams, folder, _to_java_data_type(row).getLogicalType(), name, 0 if given.mode == "drain" else 200
    )
    schema = Schema.new_builder()
    for column in given.query.columns:
        schema = schema.column(column, kinds.get(column, DataTypes.STRING()))
    schema = schema.watermark("t", f"t - {interval(delay)}").build()
    return Table(tables._j_tenv.fromDataStream(stream, schema._j_schema), tables)


def interval(milliseconds: int) -> str:
    """An interval in Flink's SQL, which takes no more than 99 of a unit without a precision."""
    seconds, fraction = divmod(milliseconds, 1000)
    days, seconds = divmod(seconds, 86_400)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:03d}"
    return f"INTERVAL '{days} {clock}' DAY TO SECOND(3)"


def insert(tables: StreamTableEnvironment, given: Job, left: str, right: str) -> object:
    """Start the join into the counting sink."""
    query = given.query
    tables.create_temporary_view("l", source(tables, given, left, query.left_delay, "left"))
    tables.create_temporary_view("r", source(tables, given, right, query.right_delay, "right"))
    kinds = {"id": "BIGINT", "payload": "DOUBLE"}
    pairs = [(name, side) for name in ("id", "payload", *query.texts) for side in "lr"]
    columns = [*(f"{side}_{name} {kinds.get(name, 'STRING')}" for name, side in pairs), "`key` STRING"]
    period = f", 'period' = '{given.period}'" if given.period else ""
    tables.execute_sql(
        f"CREATE TEMPORARY TABLE counted ({', '.join(columns)}) WITH ('connector' = 'counting'{period})"
    )
    if query.type == "asof":
        tables.execute_sql(
            "CREATE TEMPORARY VIEW v AS SELECT id, t, `key`, payload FROM (SELECT *, "
            "ROW_NUMBER() OVER (PARTITION BY `key` ORDER BY t DESC) AS n FROM r) WHERE n = 1"
        )
        within = f"v.t >= l.t - {interval(-query.lower)}"
        return tables.execute_sql(
            f"INSERT INTO counted SELECT l.id, CASE WHEN {within} THEN v.id END, l.payload, "
            f"CASE WHEN {within} THEN v.payload END, l.`key` "
            "FROM l LEFT JOIN v FOR SYSTEM_TIME AS OF l.t ON l.`key` = v.`key`"
        )
    output = ", ".join([*(f"{side}.{name}" for name, side in pairs), "l.`key`"])
    return tables.execute_sql(
        f"INSERT INTO counted SELECT {output} FROM l {query.type.upper()} JOIN r ON l.`key` = r.`key` "
        f"AND r.t BETWEEN l.t - {interval(-query.lower)} AND l.t + {interval(query.upper)}"
    )


def answer() -> dict[str, int]:
    """What the sink has counted."""
    counts = get_gateway().jvm.bench.CountingFactory.answer().split()
    return dict(zip(("rows", "matches", "checksum"), map(int, counts), strict=True))


def main() -> None:
    """Run the join as the job says."""
    given = job()
    checkpoints = f"{given.work}/checkpoint"
    if given.mode != "drain":
        insert(environment(given, checkpoints), given, given.left, given.right)
        emit("start", state=[checkpoints])
        follow()
    insert(environment(given, f"{given.work}/warm"), given, given.warm_left, given.warm_right).wait()
    get_gateway().jvm.bench.CountingFactory.reset()
    tables = environment(given, checkpoints)
    emit("start", state=[checkpoints])
    started = time.perf_counter()
    insert(tables, given, given.left, given.right).wait()
    emit("done", seconds=time.perf_counter() - started, **answer())
    finish()


def follow() -> None:
    """Report what the sink has counted, by publication and moment, until killed."""
    sink = get_gateway().jvm.bench.CountingFactory
    while True:
        time.sleep(REPORT_SECONDS)
        moments = [[int(part) for part in line.split()] for line in sink.arrivals().splitlines()]
        if moments:
            emit("snapshot", moments=[[number, at / 1000, count] for number, at, count in moments])


main()
