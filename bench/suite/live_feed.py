"""Rows that keep coming at a steady rate: as files or in a category, and kept aside for the check."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from braid.core.columns import RAW_COLUMN
from braid.core.json_rows import json_rows
from braid.home.paths import Home
from suite.feed import PERIOD
from suite.workloads import Stream, table_of

INTERVAL = 0.5
"""Seconds between publications."""
TAIL = 15 * 60_000
"""Milliseconds by which a row of the right side is late at most."""
KEPT_SECONDS = 300
"""How long published files stay in the folders that systems watch: a folder that grows for hours would be a
measurement of listing it."""
PARTNERS = 5
"""One row in so many has a match within the window."""

Delays = npt.NDArray[np.int64]


def left_delays(rng: np.random.Generator, rows: int) -> Delays:
    """Two seconds on average."""
    return rng.exponential(2_000, rows).astype(np.int64)


def right_delays(rng: np.random.Generator, rows: int) -> Delays:
    """Twenty seconds on average, with a heavy tail: one row in a hundred is later than three minutes."""
    return np.minimum(rng.lognormal(8.9, 1.42, rows), TAIL).astype(np.int64)


@dataclass
class LiveFeed:
    """Publishes both sides every `INTERVAL`, and tells when.

    Parameters
    ----------
    folder
        Has the folders `left` and `right` that systems watch, and `archive` with all rows.
    rate
        Rows per second and side.
    window
        Length of the join's window in milliseconds: keys are drawn so that one row in five has a match.
    home
        Publish to the raw categories `left` and `right` of this home, instead of files that systems watch.
    published
        When each publication became visible, in seconds since 1970.
    """

    folder: Path
    rate: float
    window: int
    home: Home | None = None
    published: dict[int, float] = field(default_factory=dict)
    error: Exception | None = None
    late: float = 0.0
    _stop: Event = field(default_factory=Event)

    def __post_init__(self) -> None:
        for name in ("left", "right"):
            for folder in (self.side(name), self.archive(name)):
                folder.mkdir(parents=True, exist_ok=True)
        self._targets: dict[str, Callable[[pa.Table], None]] = {}
        if self.home is not None:
            log = self.home.log()
            self._targets = {name: _appender(log.create(name, raw=True).append) for name in ("left", "right")}

    def side(self, name: str) -> Path:
        """The folder that systems watch."""
        return self.folder / name

    def archive(self, name: str) -> Path:
        """The folder with what was published before."""
        return self.folder / "archive" / name

    def start(self, seconds: float) -> Thread:
        """Publish in the background for so long; number 0 has been published before."""
        thread = Thread(target=self._run, args=(seconds,), daemon=True)
        thread.start()
        return thread

    def stop(self) -> None:
        """Publish no more."""
        self._stop.set()

    def publish(self, number: int) -> None:
        """Generate a publication as of now, and make it visible."""
        now = time.time()
        tables = {name: self._rows(name, seed, number, now) for seed, name in enumerate(("left", "right"))}
        for name, table in tables.items():
            target = self.side(name) if self.home is None else self.archive(name)
            staged = self.folder / f"{name}.staged"
            pq.write_table(table, staged, compression="snappy", store_schema=False)
            staged.rename(target / f"{number:06d}.parquet")
            if self.home is not None:
                self._targets[name](table)
        self.published[number] = time.time()

    def _rows(self, name: str, seed: int, number: int, now: float) -> pa.Table:
        rows = max(1, round(self.rate * INTERVAL))
        rng = np.random.default_rng([seed, number])
        arrival = np.sort(now * 1000 - rng.random(rows) * INTERVAL * 1000).astype(np.int64)
        delays = (left_delays if name == "left" else right_delays)(rng, rows)
        keys = max(1, round(self.rate * self.window / 1000 * PARTNERS))
        stream = Stream(arrival - delays, arrival, rng.integers(0, keys, rows))
        return table_of(stream, (), seed, number * PERIOD)

    def _run(self, seconds: float) -> None:
        try:
            begin = time.time()
            for number in range(1, round(seconds / INTERVAL) + 1):
                due = begin + number * INTERVAL
                if self._stop.wait(max(0.0, due - time.time())):
                    return
                self.publish(number)
                self.late = max(self.late, time.time() - due - INTERVAL)
                self._archive(number - round(KEPT_SECONDS / INTERVAL))
        except Exception as error:  # noqa: BLE001  whoever watches the run looks at it
            self.error = error

    def _archive(self, number: int) -> None:
        if self.home is None and number >= 0:
            for name in ("left", "right"):
                path = self.side(name) / f"{number:06d}.parquet"
                path.rename(self.archive(name) / path.name)


def _appender(append: Callable[[pa.Table], int]) -> Callable[[pa.Table], None]:
    def publish(table: pa.Table) -> None:
        texts = [json_rows(batch) for batch in table.to_batches()]
        append(pa.table({RAW_COLUMN: pa.chunked_array(texts, pa.string())}))

    return publish
