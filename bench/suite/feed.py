"""Publishing files at a steady pace, prepared beforehand so that publishing itself costs next to nothing."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from suite.workloads import Stream, table_of

PERIOD = 1 << 24
"""Ids per publication: `id // PERIOD` is its number."""
DELAYS = {"left": 2_000, "right": 20_000}
"""Mean delays of rows, in milliseconds, as in the workload `uniform`."""


@dataclass
class Feed:
    """Publications of both sides, one file each, that become visible at fixed moments.

    Parameters
    ----------
    folder
        Has the folders `left` and `right` that systems watch, and `staged`.
    interval
        Seconds between publications.
    published
        When each publication became visible, in seconds since 1970.
    """

    folder: Path
    interval: float
    published: dict[int, float] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)

    def side(self, name: str) -> Path:
        """The folder that systems watch."""
        return self.folder / name

    def publish(self, number: int) -> None:
        """Make a publication visible."""
        for name in ("left", "right"):
            staged = self.folder / "staged" / name / f"{number:06d}.parquet"
            now = time.time()
            os.utime(staged, (now, now))
            staged.rename(self.side(name) / staged.name)
        self.published[number] = time.time()

    def start(self, numbers: range, begin: float) -> threading.Thread:
        """Publish in the background: the first at `begin` (seconds since 1970), then one per interval."""
        thread = threading.Thread(target=self._publish_all, args=(numbers, begin), daemon=True)
        thread.start()
        return thread

    def stop(self) -> None:
        """Publish no more."""
        self._stop.set()

    def _publish_all(self, numbers: range, begin: float) -> None:
        for place, number in enumerate(numbers):
            if self._stop.wait(max(0.0, begin + place * self.interval - time.time())):
                return
            self.publish(number)


def stage(feed: Feed, rows: int, numbers: range, begin: float) -> None:
    """Prepare publications of so many rows per side, as if they had arrived in the interval before."""
    for seed, (name, delay) in enumerate(DELAYS.items()):
        for folder in (feed.side(name), feed.folder / "staged" / name):
            folder.mkdir(parents=True, exist_ok=True)
        for place, number in enumerate(numbers):
            rng = np.random.default_rng([seed, number])
            end = (begin + place * feed.interval) * 1000
            arrival = np.sort(end - rng.random(rows) * feed.interval * 1000).astype(np.int64)
            event = arrival - rng.exponential(delay, rows).astype(np.int64)
            # About one match for every five rows, at any rate.
            keys = max(1, round(rows / feed.interval * 360 * 5))
            stream = Stream(event, arrival, rng.integers(0, keys, rows))
            write(table_of(stream, (), seed, number * PERIOD), feed, name, number)


def write(table: pa.Table, feed: Feed, name: str, number: int) -> None:
    """Stage a publication of one side."""
    folder = feed.folder / "staged" / name
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{number:06d}.parquet"
    pq.write_table(table, path, row_group_size=max(1, len(table)), compression="snappy", store_schema=False)
