"""Explain says what runs where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from braid.api import compile_text, explain
from braid.core.errors import BraidError
from braid.plan.kinds.join import JoinStage
from braid.plan.kinds.slicer import SlicerStage
from braid.plan.time_words import duration, window

FIGURE_3 = (Path(__file__).parents[1] / "figure3.sql").read_text()

TREE = """\
application sample_app
└─ table result -> scribe result
   └─ post-join slicer
      ├─ evaluate after the join: dim_two = right.dim_two, dim_three = COALESCE(right.dim_three, 'example')
      ├─ pass on: eventtime, key, dim_one, metric
      └─ left join joined_streams, match all
         ├─ window: right time - left time in [-3 min, +3 min]
         ├─ on: key = key
         ├─ left slicer -> sample_app.joined_streams.left, buffered 3 min
         │  ├─ event time: eventtime
         │  ├─ key: key string
         │  ├─ evaluate before the join: metric = ABS(metric)
         │  ├─ pass on: eventtime, key, dim_one
         │  └─ read scribe left (eventtime timestamp, key string, dim_one string, metric double), \
time eventtime in seconds
         └─ right slicer -> sample_app.joined_streams.right, buffered 3 min
            ├─ event time: eventtime
            ├─ key: key string
            ├─ pass on: dim_two, dim_three
            └─ read scribe right (eventtime timestamp, key string, dim_two string, dim_three string), \
time eventtime in seconds
"""

CHAIN = """
CREATE APPLICATION shop WITH (shards = 2);
CREATE INPUT TABLE orders (id, at, item) FROM SCRIBE("orders");
CREATE INPUT TABLE deliveries (id, at) FROM KAFKA("deliveries");
CREATE INPUT TABLE returns (id, at, reason) FROM FILES("returns/*.json");
CREATE VIEW life AS SELECT o.id AS id, d.at AS delivered, r.reason AS reason
FROM orders AS o JOIN deliveries AS d ON o.id = d.id AND d.at BETWEEN o.at AND o.at + INTERVAL '2 days'
LEFT JOIN returns AS r ON r.id = o.id AND r.reason <> o.item AND r.reason <> ''
  AND r.at BETWEEN d.at AND d.at + INTERVAL '1 hour';
CREATE TABLE kept AS SELECT id FROM life WHERE reason IS NULL STORAGE CONSOLE;
CREATE TABLE returned AS SELECT id, reason FROM life WHERE reason IS NOT NULL STORAGE SCRIBE(category = "r");
"""


def test_figure_3_as_a_tree() -> None:
    assert explain(compile_text(FIGURE_3)) == TREE


def test_a_chain_shows_every_stage_once() -> None:
    text = explain(compile_text(CHAIN))
    assert text.count("inner join life__1") == 1
    assert text.count("left join life,") == 1
    assert "read shop.life, shown above" in text
    assert "matches only if: reason <> ''" in text
    assert "and: " in text
    assert "with shards = 2" in text


def test_a_chain_carries_every_event_time() -> None:
    joins = [stage for stage in compile_text(CHAIN).plan.stages if isinstance(stage, JoinStage)]
    assert joins[0].sink.time_columns == ("orders__at", "deliveries__at")
    assert joins[1].sink.time_columns == ("delivered",)


OTHERS = """
CREATE APPLICATION shop;
CREATE INPUT TABLE a (t, k, x) FROM SCRIBE("a") TIME t ORDERED;
CREATE INPUT TABLE b (t, k, y DOUBLE) FROM SCRIBE("b")
TIME t IN MILLISECONDS ORDERED WITHIN INTERVAL '90 seconds';
CREATE VIEW near AS SELECT a.k, INTERPOLATE(b.y) AS y, d.name FROM a
ASOF LEFT JOIN b MATCH_CONDITION (a.t >= b.t) ON a.k = b.k WITHIN INTERVAL '1 hour'
LEFT JOIN LOOKUP("names") AS d ON d.key = a.k;
CREATE VIEW pairs AS SELECT a.k FROM a TIMESERIES JOIN b;
CREATE VIEW once AS SELECT a.k FROM a LEFT JOIN b ON b.t BETWEEN a.t AND a.t + INTERVAL '1 minute'
MATCH FIRST CONSUME EMIT UNMATCHED AFTER INTERVAL '5 seconds';
CREATE TABLE t1 AS SELECT * FROM near STORAGE LASER(table = "t1", key = (k));
CREATE TABLE t2 AS SELECT * FROM pairs STORAGE CONSOLE;
CREATE TABLE t3 AS SELECT * FROM once STORAGE CONSOLE;
"""


@pytest.mark.parametrize(
    "line",
    [
        "table t1 -> laser t1",
        "left asof join near__1",
        "pairs: the last right row at or before the left row, at most 1 h apart",
        "look up names by key = a__k: d__name = name string; or NULLs",
        "previous.y + (next.y - previous.y)",
        "time t in seconds, ordered\n",
        "time t in milliseconds, ordered within 1 min 30 s\n",
        "inner time-series join pairs",
        "every row with its predecessor and its successor on the other side, at any distance",
        "one shard, which sees all rows: both sides decide what is matched",
        "buffered until the next one of the other side",
        "left join once, match first, each right row once",
        "unmatched rows: after a wait of 5 s, or when the window has closed",
    ],
)
def test_other_joins(line: str) -> None:
    assert line in explain(compile_text(OTHERS))


def test_the_order_of_one_time_says_nothing_about_another() -> None:
    program = """
    CREATE APPLICATION app;
    CREATE INPUT TABLE a (t TIMESTAMP, u TIMESTAMP, k) FROM SCRIBE("a")
    TIME t ORDERED WITHIN INTERVAL '1 hour';
    CREATE TABLE o AS SELECT l.k FROM a l JOIN a r ON l.k = r.k AND r.u = l.{time} STORAGE CONSOLE;
    """
    for time, expected in (("t", [3_600_000_000, None]), ("u", [None, None])):
        stages = compile_text(program.format(time=time)).plan.stages
        assert [s.source.disorder for s in stages if isinstance(s, SlicerStage)] == expected


def test_other_joins_in_mermaid() -> None:
    text = explain(compile_text(OTHERS), "mermaid")
    assert '[("lookup names")]' in text
    assert "left asof join near__1<br/>at most 1 h apart" in text


def test_watermarks_say_what_holds_them_back() -> None:
    text = explain(compile_text(CHAIN))
    assert "orders__at: min(left stream time, right stream time - 2 d)" in text
    assert "delivered: min(left stream time, right stream time - 1 h)" in text


def test_json_is_the_plan() -> None:
    compiled = compile_text(CHAIN)
    value = json.loads(explain(compiled, "json"))
    assert value["application"] == "shop"
    assert [stage["name"] for stage in value["stages"]] == [stage.name for stage in compiled.plan.stages]


def test_mermaid_links_stages_through_categories() -> None:
    text = explain(compile_text(FIGURE_3), "mermaid")
    assert text.startswith("flowchart LR\n")
    assert text.count("-->") == 7
    assert 'c4[("scribe result")]' in text


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(BraidError, match="one of text, json, mermaid, pql"):
        explain(compile_text(FIGURE_3), "dot")


@pytest.mark.parametrize(
    ("micros", "text"),
    [(0, "0 s"), (180_000_000, "3 min"), (-12_600_000_000, "-3 h 30 min"), (1_500_001, "1 s 500 ms 1 us")],
)
def test_durations(micros: int, text: str) -> None:
    assert duration(micros) == text


def test_windows_are_signed() -> None:
    assert window(-1_000_000, 0) == "[-1 s, 0 s]"
    assert window(1_000_000, 2_000_000) == "[+1 s, +2 s]"
