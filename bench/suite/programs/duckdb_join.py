"""DuckDB's batch join: the limit."""

from __future__ import annotations

import time

import duckdb
from common import emit, finish, job
from suite.oracle import answer_sql, query_sql


def main() -> None:
    """Join, and report the answer."""
    given = job()
    connection = duckdb.connect(config={"threads": 2, "memory_limit": "4GB"})

    def run(left: str, right: str) -> tuple[int, ...]:
        rows = query_sql(given.query, f"'{left}/*.parquet'", f"'{right}/*.parquet'")
        return connection.execute(answer_sql(given.query, rows)).fetchone()

    run(given.warm_left, given.warm_right)
    emit("start")
    started = time.perf_counter()
    rows, matches, checksum, *_ = run(given.left, given.right)
    emit(
        "done",
        seconds=time.perf_counter() - started,
        rows=rows,
        matches=matches,
        checksum=int(checksum),
    )
    finish()


main()
