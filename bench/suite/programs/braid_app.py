"""Braid: a whole application, from Parquet files to a category of the log, with default options."""

from __future__ import annotations

import time
from pathlib import Path

import duckdb
from common import Job, emit, finish, job
from suite.oracle import answer_sql
from suite.spec import Query

from braid import api
from braid.api.data import read_batches
from braid.home.metrics import MicroBatch, read_metrics
from braid.home.paths import Home
from braid.plan.stages.base import Plan
from braid.spark.processes.session import open_session

PROGRAM = """
CREATE APPLICATION bench{options};
CREATE INPUT TABLE l ({columns}) FROM {left} TIME t;
CREATE INPUT TABLE r ({columns}) FROM {right} TIME t;
CREATE VIEW joined AS SELECT {output} FROM l {type} JOIN r ON l.key = r.key
  AND r.t BETWEEN l.t + INTERVAL '{lower} seconds' AND l.t + INTERVAL '{upper} seconds'{match};
CREATE TABLE result AS SELECT * FROM joined STORAGE SCRIBE(category = "result");
"""


def plan(query: Query, left: str, right: str, options: dict[str, object], *, category: bool = False) -> Plan:
    """The application, compiled."""
    source = 'SCRIBE("{}")' if category else 'FILES("{}", format = "parquet")'
    types = {"id": "bigint", "t": "timestamp", "payload": "double"}
    pairs = [(side, name) for name in ("id", "payload", *query.texts) for side in "lr"]
    output = ", ".join(["l.key AS key", *(f"{side}.{name} AS {side}_{name}" for side, name in pairs)])
    return api.compile_text(
        PROGRAM.format(
            options=f" WITH ({', '.join(f'{n} = {_literal(v)}' for n, v in options.items())})"
            if options
            else "",
            columns=", ".join(f"{name} {types.get(name, 'string')}" for name in query.columns),
            left=source.format(left),
            right=source.format(right),
            output=output,
            type="LEFT" if query.type == "asof" else query.type.upper(),
            lower=query.lower / 1000,
            upper=query.upper / 1000,
            match=" MATCH LATEST" if query.type == "asof" else "",
        )
    ).plan


def main() -> None:
    """Run the application as the job says."""
    given = job()
    home = Home.at(Path(given.work) / "home")
    folders = {"state": [str(home.application("bench").root / "checkpoints")], "log": [home.log_root]}
    program = plan(given.query, given.left, given.right, given.options, category=given.category)
    emit("phase", name="Python and packages")
    spark = open_session(master="local[2]")
    emit("phase", name="JVM and session")
    if given.mode == "finish":
        api.run(program, home.root, spark=spark, drain=True).wait()
        emit("done")
        finish()
    if given.mode != "drain":
        api.run(program, home.root, spark=spark, on_progress=report)
        emit("start", **folders)
        wait_for_end()
    warm = plan(given.query, given.warm_left, given.warm_right, given.options)
    api.run(warm, Path(given.work) / "warm", spark=spark, drain=True).wait()
    emit("start", **folders)
    started = time.perf_counter()
    api.run(program, home.root, spark=spark, drain=True).wait()
    seconds = time.perf_counter() - started
    emit("done", seconds=seconds, **answer(given, home), **details(home))
    finish()


def answer(given: Job, home: Home) -> dict[str, int]:
    """Count what the category holds, after the clock has stopped."""
    totals = [0, 0, 0]
    with duckdb.connect(config={"threads": 1}) as connection:
        for batch in read_batches("result", home):
            connection.register("part", batch)
            (row,) = connection.execute(answer_sql(given.query, "SELECT * FROM part")).fetchall()
            totals = [total + int(value) for total, value in zip(totals, row[:3], strict=True)]
    return dict(zip(("rows", "matches", "checksum"), totals, strict=True))


def details(home: Home) -> dict[str, object]:
    """What the join says of itself: rows held at most, and matches that it knows it lost."""
    counted = [batch.counters for batch in read_metrics(home.application("bench").metrics_file("joined"))]
    return {
        "micro_batches": len(counted),
        "state_rows": max((counters.pending for counters in counted), default=0),
        "lost_matches": sum(counters.lost_matches for counters in counted),
    }


def report(batch: MicroBatch) -> None:
    """Tell of a micro-batch: when it began, and how long its parts took."""
    counted = batch.counters
    emit(
        "batch",
        stage=batch.stage,
        began=batch.at,
        milliseconds=batch.duration_ms,
        join_ms=counted.join_ms,
        pending=counted.pending,
    )


def wait_for_end() -> None:
    """Go on until killed."""
    while True:
        time.sleep(3600)


def _literal(value: object) -> str:
    return (
        f'"{value}"'
        if isinstance(value, str)
        else str(value).upper()
        if isinstance(value, bool)
        else str(value)
    )


main()
