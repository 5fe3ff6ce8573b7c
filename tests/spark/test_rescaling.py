"""Other shards and state partitions of a join that runs: by the handle, by the API, and at a start."""

from __future__ import annotations

import threading
import time

import pytest

from braid import api
from braid.api.data import publish, read
from braid.core.errors import RunError
from braid.home.paths import Home
from braid.plan.stages.base import Plan

pytestmark = pytest.mark.spark

PROGRAM = """
  CREATE APPLICATION app WITH (shards = {shards}, chunk_rows = 50, batch_rows = 1000);
  CREATE INPUT TABLE l (id bigint, t timestamp, k string) FROM SCRIBE("l") TIME t;
  CREATE INPUT TABLE r (id bigint, t timestamp, k string) FROM SCRIBE("r") TIME t;
  CREATE TABLE out AS SELECT l.id AS lid, r.id AS rid FROM l LEFT JOIN r ON l.k = r.k
    AND r.t BETWEEN l.t - INTERVAL '1 hour' AND l.t + INTERVAL '1 hour' STORAGE SCRIBE(category = "out");
"""


def program(shards: int = 2) -> Plan:
    return api.compile_text(PROGRAM.format(shards=shards)).plan


def rows(start: int, stop: int) -> list[dict[str, object]]:
    return [{"id": n, "t": 1_700_000_000 + n, "k": f"k{n}"} for n in range(start, stop)]


def found(home: Home) -> list[tuple[int, int | None]]:
    return sorted(
        (row["lid"], -1 if row["rid"] is None else row["rid"]) for row in read("out", home).to_pylist()
    )


def layout(home: Home) -> tuple[int, int, int]:
    generation = home.application("app").generation("out")
    assert generation is not None
    return generation.shards, generation.partitions, generation.number


def test_a_join_goes_on_with_other_shards(spark: object, home: Home) -> None:
    publish("l", rows(0, 300), home)
    publish("r", rows(0, 10), home)
    with api.run(program(), home.root, spark=spark) as handle:
        handle.process_available()
        for number, wanted in enumerate([(5, 2), (1, 1), (4, 3)]):
            pauses = handle.rescale(shards=wanted[0], partitions=wanted[1])
            assert list(pauses) == ["out"]
            assert layout(home) == (*wanted, number + 1)
            # Rows that were pending before find their partners after.
            publish("r", rows(10 + 80 * number, 90 + 80 * number), home)
            handle.process_available()
        assert handle.rescale(shards=4, partitions=3) == {}
        assert found(home) == [(n, n) for n in range(250)]
    handle = api.run(program(), home.root, spark=spark, drain=True)
    handle.wait()
    assert found(home) == [*((n, n) for n in range(250)), *((n, -1) for n in range(250, 300))]
    totals = handle.status.stages["out"].totals
    assert (totals.rows_out, totals.input("left").matched, totals.input("left").unmatched) == (300, 250, 50)
    folders = sorted(path.name for path in (home.application("app").root / "checkpoints").iterdir())
    assert folders == ["out.left", "out.right", "out@3"]


def test_others_may_ask_for_it_and_a_start_goes_by_its_options(spark: object, home: Home) -> None:
    publish("l", rows(0, 50), home)
    publish("r", rows(0, 20), home)
    with pytest.raises(RunError, match="has not run here"):
        api.rescale("app", home, shards=2)
    with api.run(program(), home.root, spark=spark) as handle:
        handle.process_available()
        assert list(api.rescale("app", home, shards=3, partitions=2)) == ["out"]
        assert layout(home) == (3, 2, 1)
        assert api.rescale("app", home, shards=3, partitions=2) == {}
    with pytest.raises(RunError, match="is not running"):
        api.rescale("app", home, shards=2)
    with api.run(program(4), home.root, spark=spark) as handle:
        wait_for = time.monotonic() + 60
        while layout(home) != (4, 1, 2) and time.monotonic() < wait_for:
            threading.Event().wait(0.1)
        assert layout(home) == (4, 1, 2)
        publish("r", rows(20, 50), home)
        handle.process_available()
    assert found(home) == [(n, n) for n in range(50)]


def test_a_drained_join_goes_on_with_other_shards(spark: object, home: Home) -> None:
    publish("l", rows(0, 30), home)
    publish("r", rows(0, 20), home)
    api.run(program(), home.root, spark=spark, drain=True).wait()
    with api.run(program(), home.root, spark=spark) as handle:
        assert list(handle.rescale(shards=5, partitions=2)) == ["out"]
        publish("l", rows(30, 35), home)
        publish("r", rows(30, 40), home)
        handle.process_available()
    api.run(program(), home.root, spark=spark, drain=True).wait()
    assert found(home) == [*((n, -1 if 20 <= n < 30 else n) for n in range(35))]
