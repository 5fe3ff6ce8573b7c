"""Programs change while rows are in flight: what each rule promises, on Spark."""

from __future__ import annotations

import pytest

from braid import api
from braid.api.data import publish, read
from braid.core.errors import RunError
from braid.home.paths import Home
from braid.plan.stages.base import Plan
from braid.spark import updating

pytestmark = pytest.mark.spark

PROGRAM = """
  CREATE APPLICATION app WITH (shards = 3, chunk_rows = 50, batch_rows = 1000);
  CREATE INPUT TABLE l (id bigint, t timestamp, k string, u timestamp, n bigint) FROM SCRIBE("l")
    TIME t ORDERED WITHIN INTERVAL '1' MINUTE;
  CREATE INPUT TABLE r (id bigint, t timestamp, k string, u timestamp, n bigint) FROM SCRIBE("r")
    TIME t ORDERED WITHIN INTERVAL '1' MINUTE;
  CREATE TABLE out AS SELECT l.id AS lid, r.id AS rid FROM l {join} STORAGE SCRIBE(category = "out");
"""
NEAR = "r.t BETWEEN l.t - INTERVAL '1 hour' AND l.t + INTERVAL '1 hour'"
ON = f"ON l.k = r.k AND {NEAR}"
BEGIN = 1_700_000_000


def program(join: str) -> Plan:
    return api.compile_text(PROGRAM.format(join=join)).plan


def rows(*numbers: int, plus: int = 0, later: int = 0) -> list[dict[str, object]]:
    """Rows by number, which is also their key; ids are other ones with `plus`, and times later."""
    return [{"id": n + plus, "t": BEGIN + n + later, "k": f"k{n}", "u": BEGIN - n, "n": n} for n in numbers]


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


CLOSING = {
    "join.keys": f"JOIN r ON upper(l.k) = upper(r.k) AND {NEAR}",
    "join.time": "JOIN r ON l.k = r.k AND r.u BETWEEN l.u - INTERVAL '1 hour' AND l.u + INTERVAL '1 hour'",
    "join.residual_operands": f"JOIN r {ON} AND l.n + 1 > r.n",
    "join.live_added": f"JOIN r {ON} AND l.n < 100 AND r.n < 100",
}


@pytest.mark.parametrize("kind", list(CLOSING))
def test_inputs_are_sliced_again_and_new_rows_find_those_of_before(
    spark: object, home: Home, kind: str
) -> None:
    out = Out(home, spark)
    assert out.run(f"JOIN r {ON}", rows(*range(20)), rows(*range(5))) == {(n, n) for n in range(5)}
    found = api.update_of(program(CLOSING[kind]), home)
    assert found is not None
    assert kind in {change.kind for change in found.found.changes}
    assert found.in_flight() == {"out": 25}
    with pytest.raises(RunError, match="replayed"):
        out.run(CLOSING[kind])
    with pytest.raises(RunError, match="rows in flight are decided before their time: out 25"):
        out.run(CLOSING[kind], replay=True)
    agreed = {"replay": True, "discard": True}
    assert out.run(CLOSING[kind], (), rows(5, 6, 7), **agreed) == {(n, n) for n in (5, 6, 7)}
    # And as ever after that.
    left = out.run(CLOSING[kind], rows(30), rows(8, 30))
    assert left == {(8, 8), (30, 30)}
    assert out.run(CLOSING[kind], drain=True) == set()


def test_rows_that_came_out_padded_do_not_match_any_more(spark: object, home: Home) -> None:
    out = Out(home, spark)
    assert out.run(f"LEFT JOIN r {ON}", rows(*range(9)), rows(*range(5))) == {(n, n) for n in range(5)}
    other = f"LEFT {CLOSING['join.keys']}"
    padded = {(n, -1) for n in range(5, 9)}
    assert out.run(other, replay=True, discard=True) == padded
    assert out.run(other, rows(20), rows(5, 6, 20)) == {(20, 20)}
    # Nor if the type is changed later.
    assert out.run(CLOSING["join.keys"], rows(10), rows(7, 10)) == {(10, 10)}
    totals = api.status(home)[0].stages["out"].totals
    assert totals.lost_matches == 3
    assert out.run(CLOSING["join.keys"], drain=True) == set()


def test_a_join_becomes_one_of_another_kind(spark: object, home: Home) -> None:
    out = Out(home, spark)
    assert out.run(f"JOIN r {ON}", rows(*range(9)), rows(*range(5))) == {(n, n) for n in range(5)}
    asof = "ASOF JOIN r MATCH_CONDITION (l.t >= r.t) ON l.k = r.k WITHIN INTERVAL '1 hour'"
    assert (
        out.run(asof, rows(5, 6, plus=100, later=60), rows(5, 6, plus=200), replay=True, discard=True)
        == set()
    )
    assert out.run(asof, drain=True) == {(105, 205), (106, 206)}


def test_an_update_that_is_interrupted_is_ended_by_the_next_start(
    spark: object, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, keys = Out(home, spark), CLOSING["join.keys"]
    assert out.run(f"JOIN r {ON}", rows(*range(9)), rows(*range(5))) == {(n, n) for n in range(5)}
    agreed = {"replay": True, "discard": True}

    def killed(*arguments: object, **named: object) -> None:
        raise RunError("the power has failed")

    with monkeypatch.context() as patched:
        patched.setattr(updating, "slice_again", killed)
        with pytest.raises(RunError, match="the power has failed"):
            out.run(keys, **agreed)
    with pytest.raises(RunError, match="was interrupted"):
        out.run(f"JOIN r {ON}", **agreed)
    assert out.run(keys, rows(20), rows(5, 20), **agreed) == {(5, 5), (20, 20)}
    # And back to the first version, by its plan.
    [first, second] = api.versions("app", home)
    assert (first.verdict, second.verdict) == (None, "replayed")
    plan = api.version_plan("app", home=home)
    assert plan == program(f"JOIN r {ON}")
    publish("r", rows(6), home)
    handle = api.run(plan, home.root, spark=spark, replay=True, discard=True, drain=True)  # type: ignore[arg-type]
    handle.wait()
    assert out.run(f"JOIN r {ON}", (), rows(7), drain=True) == {(6, 6), (7, 7)}
    assert not home.application("app").updating_file.exists()
