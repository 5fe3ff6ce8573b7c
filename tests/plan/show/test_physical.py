"""The physical plan in words: how each query reads, computes and stores."""

from __future__ import annotations

import pytest

from braid.api import compile_text, explain

PROGRAM = """
CREATE APPLICATION shop WITH (shards = 4);
CREATE INPUT TABLE a (k STRING, t TIMESTAMP, x BIGINT) FROM FILES("a/*.parquet", format = "parquet") TIME t;
CREATE INPUT TABLE b (k STRING, t TIMESTAMP) FROM SCRIBE("b") TIME t ORDERED;
CREATE VIEW v AS SELECT l.k AS k, l.t AS t FROM a AS l
JOIN b AS r ON l.k = r.k AND r.t BETWEEN l.t AND l.t + INTERVAL '1 hour';
CREATE TABLE seen AS SELECT k, t FROM v STORAGE HIVE(table = "seen");
CREATE TABLE shown AS SELECT x FROM a STORAGE CONSOLE;
"""


@pytest.mark.parametrize(
    "line",
    [
        "slice whole files in Arrow if their types allow, else rows in Catalyst",
        "small files of a folder are sliced by the driver where Spark runs on one machine",
        "copy in the sink: k = __key0",
        "store in category shop.v.left, 4 shards, times of chunks: __time",
        "4 shards in 1 state partition",
        "the right input is kept 1 h ahead of the left one",
        "right stream time: ordered",
        "store in Parquet files in warehouse/seen, by date and hour of t",
        "store in category shop.shown.relay, 1 shard, times of chunks: none, relayed to the sink",
    ],
)
def test_every_decision_is_shown(line: str) -> None:
    assert line in explain(compile_text(PROGRAM), "physical")
