"""Whole applications against DuckDB: drained output is the batch join, as a multiset."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from braid.home.paths import Home
from tests.spark.oracle import Case, compile_case, differences, generate, publish, read

pytestmark = pytest.mark.spark

BOTH = "l.t AS lt, l.k AS k, l.a AS a, r.b AS b, r.t AS rt"
CASES = [
    Case("left_all", BOTH),
    Case("inner_all", BOTH, join="JOIN"),
    Case("right_all", BOTH, join="RIGHT JOIN", shards=5),
    Case("full_all", BOTH, join="FULL JOIN", shards=5),
    Case("left_composite", BOTH, on="l.k = r.k AND l.k2 = r.k2", shards=5),
    Case("full_composite", BOTH, join="FULL JOIN", on="l.k = r.k AND l.k2 = r.k2"),
    Case("left_residual", BOTH, on="l.k = r.k AND l.a < r.b"),
    Case("inner_residual", BOTH, join="JOIN", on="l.k = r.k AND (l.a < r.b OR l.s = r.s)", shards=5),
    Case("full_residual", BOTH, join="FULL JOIN", on="l.k = r.k AND l.k2 <> r.k2"),
    Case("left_one_sided", BOTH, on="l.k = r.k AND l.a > 0 AND r.b > 0"),
    Case("right_one_sided", BOTH, join="RIGHT JOIN", on="l.k = r.k AND l.a > 0 AND r.b > 0", shards=5),
    Case("left_first", BOTH, match="FIRST"),
    Case("full_first", BOTH, join="FULL JOIN", match="FIRST", shards=5),
    Case("left_nearest", BOTH, match="NEAREST"),
    Case("right_earliest", BOTH, join="RIGHT JOIN", match="EARLIEST", shards=5),
    Case("inner_latest", BOTH, join="JOIN", match="LATEST"),
    Case("left_latest", BOTH, match="LATEST", on="l.k = r.k AND l.k2 = r.k2", shards=5),
    Case("left_expressions", "upper(l.k) AS k, abs(l.a) AS a, coalesce(r.b, -1.5) AS b, l.a + r.b AS c"),
    Case("left_where", BOTH, where="l.a > -50 AND (r.b IS NULL OR r.b < 50)", shards=5),
    Case("inner_where", BOTH, join="JOIN", where="l.s = 'x' AND r.b > l.a"),
    Case("left_after", BOTH, low=0, high=45, shards=5),
    Case("inner_far", BOTH, join="JOIN", low=20, high=90),
    Case("full_exact", BOTH, join="FULL JOIN", low=0, high=0),
    Case("left_key_expression", BOTH, on="lower(l.k) = r.k AND coalesce(l.k2, 0) = coalesce(r.k2, 0)"),
    Case(
        "inner_strings", "l.s AS ls, r.s AS rs, length(l.s) AS n", join="JOIN", on="l.s = r.s AND l.k = r.k"
    ),
]


@pytest.fixture(scope="module")
def results(spark: object, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[object]]:
    """Differences of every case, from one home over one session, several applications at a time."""
    from braid.spark.app import Application

    home = Home.at(Path(tmp_path_factory.mktemp("oracle")))
    streams = generate(seed=7)
    publish(home.log(), streams, commits=4)

    def run(case: Case) -> tuple[str, list[object]]:
        app = Application(compile_case(case).plan, home, spark=spark, drain=True)
        assert app.start().wait(150)
        return case.name, differences(read(home, f"{case.name}.out"), case.sql(), streams)

    with ThreadPoolExecutor(2) as pool:
        return dict(pool.map(run, CASES))


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_drained_output_equals_duckdb(results: dict[str, list[object]], name: str) -> None:
    assert results[name] == []
