"""Pathway's interval join, over the same rows as CSV files: its Parquet readers need a licence key."""

from __future__ import annotations

import os
import time

from common import PRIME, Job, emit, finish, job

os.environ.setdefault("PATHWAY_THREADS", "2")

import pathway as pw


def run(given: Job, left_folder: str, right_folder: str) -> dict[str, int]:
    """Join two folders; the totals as they are in the end."""
    pw.internals.parse_graph.G.clear()
    query = given.query
    kinds = {"number": int, "t": int, "payload": float}
    names = ["number" if name == "id" else name for name in query.columns]
    schema = pw.schema_from_types(**{name: kinds.get(name, str) for name in names})
    left = pw.io.csv.read(left_folder, schema=schema, mode="static")
    right = pw.io.csv.read(right_folder, schema=schema, mode="static")
    how = pw.JoinMode.INNER if query.type == "inner" else pw.JoinMode.LEFT
    if query.type == "asof":
        # The whole distance is checked after the join, which has no tolerance.
        backward = pw.temporal.Direction.BACKWARD
        joined = left.asof_join(right, left.t, right.t, left.key == right.key, how=how, direction=backward)
        near = pw.coalesce(right.t, -(2**62)) >= left.t + query.lower
        partner, other = pw.if_else(near, right.number, None), pw.if_else(near, right.payload, None)
    else:
        bounds = pw.temporal.interval(query.lower, query.upper)
        joined = left.interval_join(right, left.t, right.t, bounds, left.key == right.key, how=how)
        partner, other = right.number, right.payload
    texts = {f"l_{name}": left[name] for name in query.texts} | {
        f"r_{name}": right[name] for name in query.texts
    }
    output = joined.select(
        l_id=left.number, r_id=partner, key=left.key, l_payload=left.payload, r_payload=other, **texts
    )
    pw.io.null.write(output)
    partner = pw.coalesce(output.r_id, -1)
    totals = output.select(
        match=pw.cast(int, output.r_id.is_not_none()), check=((output.l_id + 1) * (partner + 2)) % PRIME
    ).reduce(
        rows=pw.reducers.count(),
        matches=pw.reducers.sum(pw.this.match),
        checksum=pw.reducers.sum(pw.this.check),
    )
    last: dict[str, int] = {"rows": 0, "matches": 0, "checksum": 0}

    def keep(key: object, row: dict[str, int], time: int, is_addition: bool) -> None:
        if is_addition:
            last.update(row)

    pw.io.subscribe(totals, keep)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    return last


def csv(folder: str) -> str:
    """The folder with the same rows as CSV files, which the suite has made."""
    return f"{folder}-csv"


def main() -> None:
    """Run the join as the job says."""
    given = job()
    run(given, csv(given.warm_left), csv(given.warm_right))
    emit("start")
    started = time.perf_counter()
    found = run(given, csv(given.left), csv(given.right))
    emit("done", seconds=time.perf_counter() - started, **found)
    finish()


main()
