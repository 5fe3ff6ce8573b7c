"""Trials on the newest rows of a home: what they expect, and what they say when they cannot be done."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from braid.api import compile_text
from braid.api.data import publish
from braid.core.config import parse_options
from braid.core.times import MINUTE, now_micros
from braid.home.paths import Home
from braid.testing.sample import Basis, newest
from braid.testing.trial import NotTriedError, Trial, TrialFailedError, try_plan

BEGIN = 1_700_000_000
INPUTS = """
CREATE APPLICATION app WITH (shards = 4);
CREATE INPUT TABLE l (id bigint, t timestamp, k string) FROM SCRIBE("l") TIME t;
CREATE INPUT TABLE r (id bigint, t timestamp, k string) FROM SCRIBE("r") TIME t;
"""
JOIN = """
CREATE TABLE out AS SELECT l.id AS lid, r.id AS rid FROM l {kind} JOIN r ON l.k = r.k
  AND r.t BETWEEN l.t - INTERVAL '{window}' AND l.t + INTERVAL '{window}' STORAGE SCRIBE(category = "out");
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A backlog of 20 minutes, two rows per second; four of five on the left have one on the right."""
    found = Home.at(tmp_path / "home")
    rng = random.Random(1)
    left = [{"id": n, "t": BEGIN + n / 2, "k": f"k{n}" if n % 5 else "none"} for n in range(2400)]
    right = [{"id": n, "t": BEGIN + n / 2 + rng.uniform(-50, 50), "k": f"k{n}"} for n in range(2400)]
    publish("l", left, found)
    publish("r", sorted(right, key=lambda row: float(str(row["t"]))), found)
    return found


def tried(home: Home, text: str, folder: Path, **more: int) -> Trial:
    plan = compile_text(text).plan
    work = folder / "work"
    work.mkdir(exist_ok=True)
    return try_plan(plan, home, parse_options(dict(plan.options)), work, **more)


def test_what_a_join_is_expected_to_do(home: Home, tmp_path: Path) -> None:
    before = sorted(home.root.rglob("*"))
    found = tried(home, INPUTS + JOIN.format(kind="LEFT", window="1 minute"), tmp_path)
    one = found.inputs["l"]
    assert (one.rows, one.dead, one.basis) == (2400, 0, Basis.EVENT_TIMES)
    assert one.rate == pytest.approx(2.0, rel=0.02)
    expected = found.prediction
    assert expected.rows_in == pytest.approx(4.0, rel=0.05)
    assert expected.rows_out == pytest.approx(2.0, rel=0.05)
    join = expected.stages["out"]
    assert join.match_rate["left"] == pytest.approx(0.8, abs=0.005)
    assert join.match_rate["right"] == pytest.approx(0.8, abs=0.005)
    # Left rows wait for a minute of the right one; right rows are kept for a minute.
    assert join.held["left"] == pytest.approx(2 * 60, rel=0.4)
    assert join.held["right"] == pytest.approx(2 * 60, rel=0.4)
    assert expected.memory() > 500e6
    assert expected.memory(pooled=True) < expected.memory()
    assert expected.checkpoint > 10_000
    assert expected.log_per_day > 1e6
    assert found.outputs["out"].num_rows == 2400
    assert sorted(home.root.rglob("*")) == before


def test_an_inner_join_gives_what_matches(home: Home, tmp_path: Path) -> None:
    found = tried(home, INPUTS + JOIN.format(kind="INNER", window="1 minute"), tmp_path).prediction
    assert found.rows_out == pytest.approx(1.6, rel=0.05)


def test_a_window_that_is_longer_than_the_sample(home: Home, tmp_path: Path) -> None:
    found = tried(home, INPUTS + JOIN.format(kind="LEFT", window="10 hours"), tmp_path).prediction
    join = found.stages["out"]
    assert join.match_rate == {}
    assert "its window of 20 h is longer" in found.notes[0]
    # 20 hours of both sides.
    assert sum(join.held.values()) == pytest.approx(2 * 2 * 20 * 3600, rel=0.1)


def test_only_the_newest_rows_are_taken(home: Home, tmp_path: Path) -> None:
    found = tried(home, INPUTS + JOIN.format(kind="LEFT", window="1 minute"), tmp_path, rows=3000)
    assert found.inputs["l"].rows == 1500
    # Rows at the edge, whose partners were cut off, do not count.
    assert found.prediction.stages["out"].match_rate["left"] == pytest.approx(0.8, abs=0.01)
    sample = newest(home.log().open("l"), 1500)
    assert sample.skipped == 900
    assert sample.place(0) == "row 900 of commit 0 of category l"


def test_rows_that_arrive_now_have_the_rate_of_their_commits(home: Home, tmp_path: Path) -> None:
    now = now_micros()
    for name in "ab":
        category = home.log().create(name, raw=True)
        for second in range(40):
            rows = [f'{{"id": {second}, "t": {BEGIN + second * 10}, "k": "x{second}"}}'] * 7
            category.append(pa.table({"value": rows}), wall_time=now - (40 - second) * 1_000_000)
    text = INPUTS.replace('"l"', '"a"').replace('"r"', '"b"') + JOIN.format(kind="LEFT", window="20 seconds")
    found = tried(home, text, tmp_path)
    assert found.inputs["a"].basis is Basis.COMMITS
    assert found.inputs["a"].rate == pytest.approx(7.0)
    # Seven by seven rows of each key.
    assert found.prediction.rows_out == pytest.approx(49.0, rel=0.1)
    late = tried(home, text, tmp_path, now=now + 5 * MINUTE)
    assert late.inputs["a"].basis is Basis.EVENT_TIMES
    assert late.inputs["a"].rate == pytest.approx(0.7, rel=0.1)


def test_three_streams_filters_and_a_lookup(home: Home, tmp_path: Path) -> None:
    text = (
        INPUTS
        + """
        CREATE INPUT TABLE q (id bigint, t timestamp, k string) FROM SCRIBE("r") TIME t;
        CREATE VIEW j AS SELECT l.id AS lid, l.t AS t, r.t AS rt, l.k AS k FROM l LEFT JOIN r ON l.k = r.k
          AND r.t BETWEEN l.t - INTERVAL '1 minute' AND l.t + INTERVAL '1 minute';
        CREATE TABLE out AS SELECT j.lid, q.id AS qid FROM j LEFT JOIN q ON q.k = j.k
          AND q.t BETWEEN j.rt AND j.rt + INTERVAL '1 second' WHERE j.lid % 2 = 0
          STORAGE SCRIBE(category = "out");
        CREATE TABLE kept AS SELECT k, t FROM l WHERE id % 4 = 0 STORAGE LASER(table = "kept", key = (k));
        CREATE TABLE seen AS SELECT l.id, s.t AS st FROM l LEFT JOIN LOOKUP("kept") AS s ON s.k = l.k
          STORAGE HIVE(table = "seen");
    """
    )
    found = tried(home, text, tmp_path)
    stages = found.prediction.stages
    assert stages["kept"].rows_out == pytest.approx(0.5, rel=0.05)
    assert stages["seen"].rows_out == pytest.approx(2.0, rel=0.05)
    assert stages["out"].rows_out == pytest.approx(1.0, rel=0.1)
    # Of the left rows of the second join, those without a partner in the first have none either.
    assert stages["out"].match_rate["left"] == pytest.approx(0.8, abs=0.03)
    assert found.outputs["seen"]["st"].null_count == 2400


def test_a_program_that_fails_on_rows_is_told_where_and_not_what(home: Home, tmp_path: Path) -> None:
    publish("l", [{"id": 0, "t": BEGIN + 1200, "k": "(secret"}], home)
    text = INPUTS + 'CREATE TABLE out AS SELECT id FROM l WHERE "x" RLIKE k STORAGE SCRIBE(category = "out");'
    with pytest.raises(TrialFailedError, match="regular expression") as error:
        tried(home, text, tmp_path)
    assert error.value.where == "slicer out, row 0 of commit 1 of category l"
    assert "secret" not in str(error.value)


def test_columns_that_typed_rows_do_not_have(home: Home, tmp_path: Path) -> None:
    home.log().create("typed", pa.schema([("id", pa.int64())])).append(pa.table({"id": [1]}))
    text = INPUTS.replace('"l"', '"typed"') + JOIN.format(kind="LEFT", window="1 minute")
    with pytest.raises(TrialFailedError, match="column 't' does not exist; existing columns: id"):
        tried(home, text, tmp_path)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ('CREATE TABLE o AS SELECT id FROM none STORAGE SCRIBE(category = "o");', "no rows yet in category"),
        ('CREATE TABLE o AS SELECT id FROM topic STORAGE SCRIBE(category = "o");', "reads kafka 'topic'"),
        ('CREATE TABLE o AS SELECT xxhash64(id) AS h FROM l STORAGE SCRIBE(category = "o");', "xxhash64"),
        (
            "CREATE TABLE o AS SELECT l.id, u.n FROM l JOIN LOOKUP('u') AS u (id bigint, n int) "
            "ON u.id = l.id STORAGE SCRIBE(category = 'o');",
            "no lookup table 'u'",
        ),
    ],
)
def test_what_cannot_be_tried_says_why(home: Home, tmp_path: Path, statement: str, said: str) -> None:
    more = 'CREATE INPUT TABLE none (id bigint, t timestamp) FROM SCRIBE("none") TIME t;\n'
    more += 'CREATE INPUT TABLE topic (id bigint, t timestamp) FROM KAFKA("topic") TIME t;\n'
    with pytest.raises(NotTriedError, match=said):
        tried(home, INPUTS + more + statement, tmp_path)


def test_dead_letters_are_counted(home: Home, tmp_path: Path) -> None:
    publish("l", ["no json", '{"id": "x"}'], home)
    found = tried(home, INPUTS + JOIN.format(kind="LEFT", window="1 minute"), tmp_path)
    assert (found.inputs["l"].rows, found.inputs["l"].dead) == (2402, 2)


def test_a_small_sample_says_nothing_of_matches(home: Home, tmp_path: Path) -> None:
    found = tried(home, INPUTS + JOIN.format(kind="LEFT", window="1 minute"), tmp_path, rows=40)
    assert found.prediction.stages["out"].match_rate == {}
    assert found.prediction.rows_out == pytest.approx(2.0, rel=0.2)
