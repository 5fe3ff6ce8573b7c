"""Days of a join's life in seconds: `bench/year.py` runs a year of it."""

from __future__ import annotations

import pyarrow as pa

from braid.core.config import AppConfig
from braid.core.side import Side
from braid.core.times import HOUR
from braid.testing.marathon import Marathon, judge, run


def test_days_with_outages_restarts_and_upkeep() -> None:
    options = AppConfig(shards=2, retention="1 day", idle_timeout="2 hours")
    marathon = Marathon(days=8, rows=24_000, interval=HOUR, options=options, outages=12, bursts=6, restarts=2)
    before = pa.total_allocated_bytes()
    outcome = run(marathon)
    verdict = judge(marathon, outcome)
    assert verdict.sound
    assert verdict.matches > 10_000
    # What is beyond retention is listed, but nobody can count its matches.
    assert (
        0 <= verdict.missing - verdict.counted <= outcome.counts.inputs[Side.RIGHT].lost["beyond_retention"]
    )
    assert all(outcome.counts.inputs[side].decided == len(outcome.streams[side]) for side in Side)
    # After as long as the retention, nothing grows any more: a day has 48 commits, each of two files.
    settled = [sample for sample in outcome.samples if sample.day >= 3]
    assert max(sample.files for sample in settled) < 250
    assert max(sample.bytes for sample in settled) < 3 * min(sample.bytes for sample in settled)
    assert max(sample.maps for sample in settled) < 250
    # Rows wait for hours, and after an outage for a day at most, which has 3,000 of the 24,000 rows.
    assert 0 < max(sample.held for sample in settled) < 3_000
    # State is two bits for each row of the blocks held, and for each shard about a kilobyte.
    assert 0 < max(sample.state_bytes for sample in settled) < 6_000
    # All rows are 1 MB, which is in the inputs; of each run before a restart, the rows held are still cached.
    assert max(sample.arrow_bytes for sample in settled) - before < 4 << 20
