"""Kill a running application again and again while input keeps arriving, then drain it and ask DuckDB.

Run as a script: `python -m tests.spark.killing --kills 30 --seed 1`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from braid.data import publish
from braid.home import Home
from tests.spark.oracle import START, differences, read

PROGRAM = """
CREATE APPLICATION killed WITH (shards = 3, chunk_rows = 500, batch_rows = 4000, idle_timeout = '1 hour');
CREATE INPUT TABLE l (id bigint, t timestamp, k string) FROM SCRIBE("l") TIME t IN MILLISECONDS;
CREATE INPUT TABLE r (id bigint, t timestamp, k string) FROM SCRIBE("r") TIME t IN MILLISECONDS;
CREATE VIEW some AS SELECT l.id AS lid, r.id AS rid FROM l LEFT JOIN r
  ON l.k = r.k AND r.t BETWEEN l.t - INTERVAL '20 seconds' AND l.t + INTERVAL '20 seconds';
CREATE TABLE left_out AS SELECT * FROM some STORAGE SCRIBE(category = "left_out");
CREATE VIEW every AS SELECT l.id AS lid, r.id AS rid FROM l FULL JOIN r
  ON l.k = r.k AND r.t BETWEEN l.t - INTERVAL '20 seconds' AND l.t + INTERVAL '20 seconds';
CREATE TABLE full_out AS SELECT * FROM every STORAGE SCRIBE(category = "full_out");
"""
WINDOW = "l.k = r.k AND r.t BETWEEN l.t - INTERVAL '20 seconds' AND l.t + INTERVAL '20 seconds'"
QUERIES = {
    "left_out": f"SELECT l.id AS lid, r.id AS rid FROM l LEFT JOIN r ON {WINDOW}",
    "full_out": f"SELECT l.id AS lid, r.id AS rid FROM l FULL JOIN r ON {WINDOW}",
}


@dataclass
class Feed:
    """Publishes both streams, a second of event time at a time, until it is told to stop."""

    home: Home
    seed: int
    rows_per_second: int = 40
    streams: dict[str, list[dict[str, object]]] = field(default_factory=lambda: {"l": [], "r": []})

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.seconds = 0

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Publish no more."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            self.second()
            self._stop.wait(0.1)

    def second(self) -> None:
        """Publish one second of event time."""
        for name, rows in self.streams.items():
            fresh = [
                {
                    "id": len(rows) + number,
                    "t": START * 1000 + self.seconds * 1000 + 1000 * number // self.rows_per_second,
                    "k": f"k{self._rng.randrange(200)}" if self._rng.random() > 0.02 else None,
                }
                for number in range(self.rows_per_second)
            ]
            rows += fresh
            publish(self.home, name, fresh)
        self.seconds += 1


def launch(home: Home, program: Path, *extra: str) -> subprocess.Popen[bytes]:
    """Start `braid run` in a process group of its own."""
    command = [sys.executable, "-m", "braid.cli", "run", str(program), "--home", str(home.root), *extra]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    return subprocess.Popen(
        [*command, "--master", "local[2]"], start_new_session=True, env=environment, stderr=subprocess.DEVNULL
    )


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the application with everything that it has started."""
    import psutil

    parent = psutil.Process(process.pid)
    family = [parent, *parent.children(recursive=True)]
    for member in family:
        try:
            os.kill(member.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait()


def progress(home: Home) -> int:
    """Micro-batches that all stages have finished, as far as the log and checkpoints tell."""
    return sum(1 for _ in (home.root / "apps" / "killed" / "checkpoints").glob("*/commits/[0-9]*"))


def run(kills: int, seed: int, say: object = print) -> dict[str, list[object]]:
    """Kill at seeded moments, drain, and return what differs from DuckDB per table."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="braid-kill-") as folder:
        home = Home.at(folder)
        program = Path(folder) / "killed.sql"
        program.write_text(PROGRAM)
        feed = Feed(home, seed)
        feed.second()
        feed.start()
        for number in range(kills):
            before, started = progress(home), time.monotonic()
            process = launch(home, program)
            # A moment of the life cycle: some micro-batches into the run, then anywhere within one.
            wanted = before + rng.randrange(0, 14)
            extra = rng.random() * 1.5
            while progress(home) < wanted and time.monotonic() - started < 90 and process.poll() is None:
                time.sleep(0.02)
            if process.poll() is not None:
                log = home.root / "apps" / "killed" / "spark.log"
                raise RuntimeError(f"the application ended by itself: {log.read_text()[-3000:]}")
            time.sleep(extra)
            kill_group(process)
            done, seconds = progress(home) - before, time.monotonic() - started
            print(f"kill {number + 1}: after {done} micro-batches, {seconds:.1f} s", flush=True)
        feed.stop()
        process = launch(home, program, "--drain")
        if process.wait(900):
            raise RuntimeError("draining failed")
        result = {}
        for category, sql in QUERIES.items():
            result[category] = differences(read(home, category), sql, feed.streams)
            print(
                f"{category}: {read(home, category).num_rows} rows, {len(result[category])} differences",
                flush=True,
            )
        return result


def main() -> None:
    """Run as a script; the exit code says whether anything was lost or doubled."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}")
    found = run(arguments.kills, arguments.seed)
    print(json.dumps({name: len(rows) for name, rows in found.items()}))
    sys.exit(1 if any(found.values()) else 0)


if __name__ == "__main__":
    main()
