"""Change the program of an application again and again while input arrives, and kill it in between.

Run as a script: `python -m tests.spark.changing --changes 20 --seed 1 [--cluster]`. Each run has another
type, match mode, window or key of the join; half of the runs are killed, some of them while the update is
carried out, and half are stopped. In the end nothing must have come out twice, no row both padded and
matched, and every pair must be a match by a program that has run; what each rule promises besides is tested
where time can be told (`tests/engine/test_updates.py`, `tests/spark/test_updates_killed.py`).
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import duckdb
import psutil
import pyarrow as pa

from braid import api
from tests.spark.killing import HEAD, LOCAL, PAIR, WAIT, Place, Trial, clustered, kill_group, launch
from tests.spark.oracle import read

TYPES = ("INNER", "LEFT", "RIGHT", "FULL")
MATCHES = ("", "MATCH FIRST", "MATCH NEAREST", "MATCH LATEST")
SECONDS = (20, 20, 20, 12, 30)
KEYS = ("l.k = r.k", "l.k = r.k", "l.k = r.k", "upper(l.k) = upper(r.k)")


def select(kind: str, match: str, seconds: int, keys: str) -> str:
    """A program's join."""
    near = f"r.t BETWEEN l.t - INTERVAL '{seconds} seconds' AND l.t + INTERVAL '{seconds} seconds'"
    return f"{PAIR} {kind} JOIN r ON {keys} AND {near} {match}"


class ChangingTrial(Trial):
    """An application whose program changes."""

    def __init__(self, folder: Path, seed: int, place: Place = LOCAL) -> None:
        super().__init__(folder, seed, "left", place)
        self.rng = random.Random(seed)
        self.changes = 0

    def change(self) -> None:
        """Start another program, and stop or kill it."""
        self.changes += 1
        rng, application = self.rng, self.home.application("killed")
        chosen = [rng.choice(options) for options in (TYPES, MATCHES, SECONDS, KEYS)]
        self._write(select(*chosen))  # type: ignore[arg-type]
        # An update that has begun to exchange inputs must be ended first.
        begun = application.updating_file.exists()
        program = application.next_plan_file if begun else self.program
        process = launch(self.home, program, "--yes", "--discard", place=self.place)
        began = time.monotonic()
        try:
            if rng.random() < 0.3:
                time.sleep(rng.random() * 12)  # while it starts, or is being updated
            else:
                self.reach(process)
            self._measure(process, began, " ".join(map(str, chosen)))
            if rng.random() < 0.5:
                process.send_signal(signal.SIGINT)
                process.wait(WAIT)
        finally:
            kill_group(process)

    def _measure(self, process: subprocess.Popen[bytes], began: float, what: str) -> None:
        parent = psutil.Process(process.pid)
        family = [parent, *parent.children(recursive=True)]
        memory = sum(member.memory_info().rss for member in family)
        cpu = sum(sum(member.cpu_times()[:2]) for member in family)
        files = sum(1 for path in self.home.root.rglob("*") if path.is_file())
        versions = len(list(self.home.application("killed").versions.glob("*.json")))
        print(
            f"{self.changes}: {what}: {time.monotonic() - began:.0f} s, {memory >> 20} MB, "
            f"{cpu:.0f} s of CPU, {files} files, {versions} versions",
            flush=True,
        )

    def finish(self) -> None:
        """End what was begun, and drain."""
        self._write(select("LEFT", "", 20, "l.k = r.k"))
        for _ in range(2):
            application = self.home.application("killed")
            begun = application.updating_file.exists()
            program = application.next_plan_file if begun else self.program
            process = launch(self.home, program, "--yes", "--discard", "--drain", place=self.place)
            try:
                if process.wait(900):
                    raise RuntimeError("draining failed")
            finally:
                kill_group(process)
            if not begun:
                return

    def wrong(self) -> dict[str, int]:
        """What must not be, and how often it is."""
        found = read(self.home, "left_out")
        emitted = Counter(zip(found["lid"].to_pylist(), found["rid"].to_pylist(), strict=True))
        pairs = {pair for pair in emitted if None not in pair}
        matched = [{pair[side] for pair in pairs} for side in (0, 1)]
        padded = [{pair[side] for pair in emitted if pair[1 - side] is None} for side in (0, 1)]
        versions = [version.plan for version in api.versions("killed", self.home)]
        print(f"{found.num_rows} rows, {len(pairs)} pairs, {len(versions)} versions", flush=True)
        return {
            "twice": sum(1 for times in emitted.values() if times > 1),
            "padded and matched": sum(len(padded[side] & matched[side]) for side in (0, 1)),
            "no match": len(pairs - self._fitting(max(SECONDS))),
        }

    def _fitting(self, seconds: int) -> set[tuple[int, int]]:
        """Pairs by the widest window that may have run; both keys give the same pairs here."""
        with duckdb.connect() as connection:
            for name in ("l", "r"):
                rows = self.streams[name]
                columns = {column: [row[column] for row in rows] for column in ("id", "t", "k")}
                connection.register(name, pa.table(columns))
            return set(
                connection.execute(
                    f"SELECT l.id, r.id FROM l JOIN r ON l.k = r.k AND abs(l.t - r.t) <= {seconds * 1000}"
                ).fetchall()
            )

    def _write(self, join: str) -> None:
        self.program.write_text(
            f'{HEAD}CREATE TABLE left_out AS {join} STORAGE SCRIBE(category = "left_out");\n'
        )


def run(changes: int, seed: int, place: Place = LOCAL) -> dict[str, int]:
    """Change the program so many times, drain, and return what is wrong."""
    with tempfile.TemporaryDirectory(prefix="braid-change-") as folder:
        trial = ChangingTrial(Path(folder), seed, place)
        for _ in range(changes):
            trial.change()
        trial.close()
        trial.finish()
        return trial.wrong()


def main() -> None:
    """Run as a script; the exit code says whether anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--changes", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cluster", action="store_true")
    options = parser.parse_args()
    with clustered() if options.cluster else nullcontext(LOCAL) as place:
        found = run(options.changes, options.seed, place)
    print(found, flush=True)
    sys.exit(any(found.values()))


if __name__ == "__main__":
    main()
