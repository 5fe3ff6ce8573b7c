"""One stream two hours ahead of the other: it is paused, by name, and memory holds a window and no more."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from braid import api
from braid.api.data import read
from braid.home.metrics import read_metrics
from braid.home.paths import Home

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = 500_000
HOURS = 4
WINDOW, SLACK, CHUNK = 600, 60, 5_000
START = 1_700_000_000_000_000
PROGRAM = """
  CREATE APPLICATION lag WITH (shards = 2, chunk_rows = 5000, batch_rows = 200000, slack = '60 seconds');
  CREATE INPUT TABLE l (id bigint, t timestamp, k bigint) FROM SCRIBE("l") TIME t;
  CREATE INPUT TABLE r (id bigint, t timestamp, k bigint) FROM SCRIBE("r") TIME t;
  CREATE VIEW j AS SELECT l.id AS lid, r.id AS rid FROM l LEFT JOIN r ON l.k = r.k
    AND r.t BETWEEN l.t - INTERVAL '5 minutes' AND l.t + INTERVAL '5 minutes';
  CREATE TABLE out AS SELECT * FROM j STORAGE SCRIBE(category = "out");
"""


def append(home: Home, name: str, start: int, stop: int) -> None:
    """Rows `start` to `stop` of a stream that lasts four hours; equal ids have equal keys and times."""
    schema = pa.schema([("id", pa.int64()), ("t", pa.timestamp("us", tz="UTC")), ("k", pa.int64())])
    ids = np.arange(start, stop)
    times = pa.array(START + ids * (HOURS * 3_600_000_000 // ROWS)).cast(schema.field("t").type)
    category = home.log().create(name, schema, shards=1, time_columns=("t",))
    category.append(pa.table([ids, times, ids], schema=schema))


def test_the_stream_ahead_waits(spark: object, home: Home) -> None:
    plan = api.compile_text(PROGRAM).plan
    append(home, "r", 0, ROWS)
    append(home, "l", 0, ROWS // 2)
    with api.run(plan, home.root, spark=spark, options={"idle_timeout": "1 hour"}) as running:
        running.process_available()
        running.process_available()
        pacing = running.status.stages["j"].pacing
        assert pacing is not None
        assert pacing.paused == "right"
        assert "right is paused" in running.paused[0]
    right = [
        batch.counters.inputs["right"] for batch in read_metrics(home.application("lag").metrics_file("j"))
    ]
    most = max(counted.pending for counted in right)
    rate = ROWS / (HOURS * 3600)
    assert 0 < most <= (WINDOW + SLACK) * rate + 2 * CHUNK
    assert sum(counted.rows for counted in right) < 0.6 * ROWS
    append(home, "l", ROWS // 2, ROWS)
    api.run(plan, home.root, spark=spark, drain=True).wait()
    right = [
        batch.counters.inputs["right"] for batch in read_metrics(home.application("lag").metrics_file("j"))
    ]
    assert max(counted.pending for counted in right) <= (WINDOW + SLACK) * rate + 2 * CHUNK
    out = read("out", home)
    assert out.num_rows == ROWS
    assert out["lid"].to_pylist() == out["rid"].to_pylist()
