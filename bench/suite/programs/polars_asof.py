"""Polars' ASOF joins of two series: prints seconds, pairs and a checksum as JSON; needs nothing but Polars.

Run by `bench/timeseries.py` with a job: the files `left` and `right` in Arrow's IPC format, in order of
`__time`; the `mode` (`pairs` or `previous`); the distance `within`; `origin` and `prime` of the checksum.
"""

from __future__ import annotations

import json
import sys
import time

import polars as pl

TIME, KEY = "__time", "__key0"
WARM_ROWS = 20_000


def main() -> None:
    """Join a part to warm up, then everything by the clock."""
    job = json.loads(sys.argv[1])
    left, right = (
        pl.read_ipc(job[side])
        .select(KEY, pl.col(TIME).alias(f"{short}t"), pl.col("x").alias(f"{short}x"))
        .rechunk()
        .with_columns(pl.col(f"{short}t").set_sorted())
        for side, short in (("left", "l"), ("right", "r"))
    )
    join = {"pairs": pairs, "previous": previous}[job["mode"]]
    join(left.head(WARM_ROWS), right.head(WARM_ROWS), job["within"])
    started = time.perf_counter()
    joined = join(left, right, job["within"])
    seconds = time.perf_counter() - started
    distance = [(pl.col(name) - job["origin"]) % job["prime"] for name in ("lt", "rt")]
    checksum = joined.select((distance[0] * distance[1] % job["prime"]).sum()).item()
    print(json.dumps({"seconds": seconds, "pairs": joined.height, "checksum": checksum}))


def previous(left: pl.DataFrame, right: pl.DataFrame, within: int) -> pl.DataFrame:
    """The last right record at or before each left one."""
    return _asof(left, right, "l", "r", within, "backward", exact=True)


def pairs(left: pl.DataFrame, right: pl.DataFrame, within: int) -> pl.DataFrame:
    """Neighbours in both directions: one ASOF join for each direction and side, without repeated pairs."""
    found = [
        _asof(a, b, own, other, within, strategy, exact)
        for a, b, own, other in ((left, right, "l", "r"), (right, left, "r", "l"))
        for strategy, exact in (("backward", True), ("forward", False))
    ]
    return pl.concat(found).unique()


def _asof(
    a: pl.DataFrame, b: pl.DataFrame, own: str, other: str, within: int, strategy: str, exact: bool
) -> pl.DataFrame:
    joined = a.join_asof(
        b,
        left_on=f"{own}t",
        right_on=f"{other}t",
        by=KEY,
        strategy=strategy,
        tolerance=within,
        coalesce=False,
        allow_exact_matches=exact,
        check_sortedness=False,
    )
    return joined.drop_nulls(f"{other}t").select(KEY, "lt", "lx", "rt", "rx")


main()
