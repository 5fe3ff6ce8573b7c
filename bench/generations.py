"""What a change of generation costs: the size of savepoints, and how soon a rescaled join takes in rows.

Three joins on Spark, on two cores, with files that keep coming. The first two have a million pending left
rows, many of which have matched, or, with MATCH NEAREST, have chosen a right row so far: how large is a
savepoint? The third holds a right window of ten million rows: when does it commit the first micro-batch that
takes in rows after a rescale was asked for? `pause` is what the command tells: until the first micro-batch of
the new generation is done, whether there were rows for it or not.
Run: `python bench/generations.py [--pending N] [--window N] [--rescales N] [--json]`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from braid import api
from braid.core.counters import Counters
from braid.home.metrics import MicroBatch
from braid.home.paths import Home

START = 1_704_067_200_000_000
HOUR = 3_600_000_000
FILE_ROWS = 500_000
LAYOUTS = ((8, 2), (4, 1), (8, 1), (6, 2))
"""Shards and state partitions, one after the other."""
KEYS = 1_000_000
WAIT = 900.0
PROGRAM = """
CREATE APPLICATION grown WITH (shards = 8, slack = '10 hours', idle_timeout = '1 hour');
CREATE INPUT TABLE l (id bigint, t timestamp, k string) FROM FILES("{root}/l", format = "parquet") TIME t;
CREATE INPUT TABLE r (id bigint, t timestamp, k string) FROM FILES("{root}/r", format = "parquet") TIME t;
CREATE TABLE out AS SELECT l.id AS lid, r.id AS rid FROM l LEFT JOIN r ON l.k = r.k
  AND r.t BETWEEN l.t - INTERVAL '3 hours' AND l.t + INTERVAL '3 hours' MATCH {match}
  STORAGE SCRIBE(category = "out");
"""


class Files:
    """Writes files of both sides: event times within an hour, in order."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._rng = np.random.default_rng(1)
        self._written = 0
        for side in "lr":
            (root / side).mkdir(parents=True)

    def write(self, side: str, rows: int, begin: float, end: float) -> None:
        """So many rows, with event times between two parts of the hour."""
        number, self._written = self._written, self._written + 1
        times = START + np.linspace(begin, end, rows) * HOUR
        keys = pa.array(self._rng.integers(0, KEYS, rows)).cast(pa.string())
        table = pa.table(
            {
                "id": np.arange(rows),
                "t": pa.array(times.astype(np.int64), pa.timestamp("us", tz="UTC")),
                "k": keys,
            }
        )
        hidden = self._root / side / f".{number}"
        pq.write_table(table, hidden)
        hidden.rename(self._root / side / f"{number:06d}.parquet")

    def fill(self, side: str, rows: int) -> None:
        """Rows of the first half of the hour, in files of a fair size."""
        files = max(1, rows // FILE_ROWS)
        for number in range(files):
            self.write(side, rows // files, number / files / 2, (number + 1) / files / 2)


class Watched:
    """A running join, of which the micro-batches are taken down."""

    def __init__(self, root: Path, left: int, right: int, match: str) -> None:
        self.home = Home.at(root / "home")
        self.files = Files(root)
        self.files.fill("l", left)
        self.files.fill("r", right)
        self._batches: list[MicroBatch] = []
        plan = api.compile_text(PROGRAM.format(root=root, match=match)).plan
        self.handle = api.run(plan, self.home.root, master="local[2]", on_progress=self._take)

    def _take(self, batch: MicroBatch) -> None:
        if batch.stage == "out":
            self._batches.append(batch)

    def until(self, holds: Callable[[Counters], bool], first: int = 0) -> MicroBatch:
        """The first micro-batch of which something holds, from a number on."""
        end, tick = time.monotonic() + WAIT, threading.Event()
        while time.monotonic() < end:
            for batch in self._batches:
                if batch.batch >= first and holds(batch.counters):
                    return batch
            tick.wait(0.05)
        raise TimeoutError(f"not within {WAIT:g} s")

    def rescaled(self, shards: int, partitions: int) -> dict[str, float]:
        """Rescale while small files keep coming."""
        asked, fed = time.time(), threading.Event()

        def feed() -> None:
            part = 0.5
            while not fed.wait(0.5):
                part += 0.00001
                for side in "lr":
                    self.files.write(side, 1_000, part, part + 0.00001)

        feeding = threading.Thread(target=feed)
        feeding.start()
        try:
            pause = self.handle.rescale(shards=shards, partitions=partitions)["out"]
            application = self.home.application("grown")
            generation = application.generation("out")
            assert generation is not None
            begun = self.until(lambda one: one.rebuilt > 0, generation.first_batch)
            taken = self.until(lambda one: one.rows_in > 0, generation.first_batch)
        finally:
            fed.set()
            feeding.join()
        saved = sum(path.stat().st_size for path in application.savepoints.iterdir())
        return {
            "shards": shards,
            "partitions": partitions,
            "pause_s": round(pause, 2),
            **self._parts(),
            "taking_in_s": round(taken.time - asked, 2),
            "open_s": round(begun.counters.open_ms / 1000, 2),
            "held": begun.counters.pending,
            "savepoint_kb": saved >> 10,
        }

    def _parts(self) -> dict[str, float]:
        """What the last pause consisted of."""
        lines = self.home.application("grown").log_file.read_text().splitlines()
        last = [line for line in map(json.loads, lines) if line["event"] == "rescaled"][-1]
        return {f"{part}_s": round(last[part], 2) for part in ("saving", "switching", "opening")}


def measure(left: int, right: int, match: str, rescales: int) -> list[dict[str, float]]:
    """Fill a join, and rescale it again and again."""
    with tempfile.TemporaryDirectory(prefix="braid-generations-") as folder:
        watched = Watched(Path(folder), left, right, match)
        with watched.handle:
            watched.until(lambda one: one.pending >= left + right)
            return [watched.rescaled(*LAYOUTS[number % len(LAYOUTS)]) for number in range(rescales)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pending", type=int, default=1_000_000, help="left rows that wait for a match")
    parser.add_argument("--window", type=int, default=10_000_000, help="right rows that are held")
    parser.add_argument("--rescales", type=int, default=4, help="of each join")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    for name, left, right, match in (
        ("pending", options.pending, options.pending // 2, "ALL"),
        ("chosen", options.pending, options.pending // 2, "NEAREST"),
        ("window", 1000, options.window, "ALL"),
    ):
        if not left or not right:
            continue
        for found in measure(left, right, match, options.rescales):
            record = {"join": name, **found}
            print(json.dumps(record) if options.json else record, flush=True)


if __name__ == "__main__":
    main()
