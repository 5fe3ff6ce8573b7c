"""An operator that the engine has never seen: one file, and it runs, restarts and is paced like a join."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.core.columns import HASH, TIME
from braid.core.config import AppConfig
from braid.core.times import SECOND
from braid.engine.admission import AdmissionConfig, Facts
from braid.home.paths import Home
from braid.log import hash_rows
from braid.testing.runtime import LocalOperator

FILE = Path(__file__).parents[2] / "examples" / "deduplicate" / "operator.py"
SCHEMA = pa.schema([(HASH, pa.int64()), (TIME, pa.int64()), ("key", pa.int64()), ("id", pa.int64())])
Row = tuple[int | None, int, int]

loading = importlib.util.spec_from_file_location("deduplicate_operator", FILE)
assert loading is not None
assert loading.loader is not None
module = importlib.util.module_from_spec(loading)
sys.modules[loading.name] = module
loading.loader.exec_module(module)


def expected(rows: list[Row], within: int) -> set[int]:
    """The rows that stay, one after the other: what the operator does for all keys at once."""
    kept: dict[int, int] = {}
    found = set()
    for time, key, number in sorted(row for row in rows if row[0] is not None):
        if key not in kept or time > kept[key] + within:
            kept[key] = time
            found.add(number)
    return found


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.integers(0, 30), st.integers(1, 3))
def test_of_rows_within_the_window_the_first_stays(
    tmp_path_factory: object, seed: int, within: int, shards: int
) -> None:
    rng = random.Random(seed)
    home = Home.at(tmp_path_factory.mktemp("home"))
    category = home.log().create("in", SCHEMA, shards=2, time_columns=(TIME,))
    admission = AdmissionConfig({"rows": "in"}, None, AppConfig(), disorder={"rows": 20 * SECOND})
    operator = module.Deduplicate(within * SECOND, ("id",))
    local = LocalOperator(home.log_root, admission, operator, shards)
    rows: list[Row] = []
    emitted: list[int] = []
    for commit in range(rng.randint(1, 6)):
        fresh = [
            (
                None if rng.random() < 0.05 else (commit * 10 + rng.randint(0, 20)) * SECOND,
                rng.randint(0, 3),
                len(rows) + number,
            )
            for number in range(rng.randint(1, 12))
        ]
        rows += fresh
        keys = pa.array([key for _, key, _ in fresh], pa.int64())
        times, ids = [row[0] for row in fresh], [row[2] for row in fresh]
        category.append(pa.table([hash_rows([keys]), times, keys, ids], schema=SCHEMA), chunk_rows=5)
        if rng.random() < 0.5:
            # Another process goes on from offset and state alone.
            local = LocalOperator(
                home.log_root, admission, operator, shards, offset=local.offset, states=local.states
            )
        emitted += run(local, Facts())
    emitted += run(local, Facts(draining=True))
    assert sorted(emitted) == sorted(expected(rows, within * SECOND))


def run(local: LocalOperator, facts: Facts) -> list[int]:
    found: list[int] = []
    while (step := local.advance(0, facts)[1]) is not None:
        for table, _ in local.results(step).values():
            found += [] if table is None else table["id"].to_pylist()
    return found
