"""Programs change while rows are in flight: what each rule promises, on Spark."""

from __future__ import annotations

import pytest

from braid import api
from braid.api.data import publish, read
from braid.home.paths import Home
from braid.plan.stages.base import Plan

pytestmark = pytest.mark.spark

PROGRAM = """
  CREATE APPLICATION app WITH (shards = 3, chunk_rows = 50, batch_rows = 1000);
  CREATE INPUT TABLE l (id bigint, t timestamp, k string) FROM SCRIBE("l")
    TIME t ORDERED WITHIN INTERVAL '1' MINUTE;
  CREATE INPUT TABLE r (id bigint, t timestamp, k string) FROM SCRIBE("r")
    TIME t ORDERED WITHIN INTERVAL '1' MINUTE;
  CREATE TABLE out AS SELECT l.id AS lid, r.id AS rid FROM l {join} STORAGE SCRIBE(category = "out");
"""
ON = "ON l.k = r.k AND r.t BETWEEN l.t - INTERVAL '1 hour' AND l.t + INTERVAL '1 hour'"
BEGIN = 1_700_000_000


def program(join: str) -> Plan:
    return api.compile_text(PROGRAM.format(join=join)).plan


def rows(*numbers: int, plus: int = 0, later: int = 0) -> list[dict[str, object]]:
    """Rows by number, which is also their key; ids are other ones with `plus`, and times later."""
    return [{"id": n + plus, "t": BEGIN + n + later, "k": f"k{n}"} for n in numbers]


class Out:
    """What comes out of an application, step by step."""

    def __init__(self, home: Home, spark: object) -> None:
        self.home, self.spark, self.seen = home, spark, 0

    def run(self, join: str, left: object = (), right: object = (), **how: bool) -> set[tuple[int, int]]:
        """What the program with a join gives for further rows; -1 is nobody."""
        publish("l", left, self.home)  # type: ignore[arg-type]
        publish("r", right, self.home)  # type: ignore[arg-type]
        handle = api.run(program(join), self.home.root, spark=self.spark, **how)  # type: ignore[arg-type]
        if "drain" not in how:
            handle.process_available()
            handle.stop()
        handle.wait()
        found = read("out", self.home).to_pylist()
        fresh, self.seen = found[self.seen :], len(found)
        pairs = [tuple(-1 if value is None else value for value in row.values()) for row in fresh]
        assert len(set(pairs)) == len(pairs)
        return set(pairs)  # type: ignore[arg-type]


def test_types_and_match_modes_change_and_rows_in_flight_stay(spark: object, home: Home) -> None:
    out = Out(home, spark)
    assert out.run(f"JOIN r {ON}", rows(*range(30)), rows(*range(5))) == {(n, n) for n in range(5)}
    # Rows that were pending find their partners by the new program, and are known to have had one.
    assert out.run(f"LEFT JOIN r {ON}", (), rows(5, 6)) == {(5, 5), (6, 6)}
    # A row with a match is done when the mode changes; others wait for the best one.
    assert out.run(f"LEFT JOIN r {ON} MATCH NEAREST", (), rows(6, 7, 8, 9, plus=100, later=9)) == set()
    # Those that have waited come out with the best so far, and no better one counts any more.
    assert out.run(f"RIGHT JOIN r {ON} MATCH FIRST", (), rows(7, 10, plus=200)) == {
        (7, 107),
        (8, 108),
        (9, 109),
        (10, 210),
    }
    assert (
        out.run(f"RIGHT JOIN r {ON} MATCH FIRST CONSUME", rows(11, plus=300), rows(10, 11, plus=400)) == set()
    )
    # Two left rows, and one right row that either may have: the one with the lower time takes it.
    assert out.run(f"FULL JOIN r {ON}", (), rows(12, 12, plus=500)[:1]) == {(11, 411), (12, 512)}
    last = out.run(f"FULL JOIN r {ON}", drain=True)
    assert {pair for pair in last if -1 not in pair} == set()
    assert {left for left, right in last if right < 0} == {*range(13, 30), 311}
    assert {right for left, right in last if left < 0} == {106, 207, 410}
    generation = home.application("app").generation("out")
    assert generation is not None
    assert generation.number == 5
