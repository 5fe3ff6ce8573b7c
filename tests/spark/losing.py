"""Take executors away from a running application, and give it others, while input keeps arriving; ask DuckDB.

Run as a script: `python -m tests.spark.losing --rounds 3 --seed 1`. In each round an executor is killed, then
a worker with its executor, then another worker comes, and shards are spread over it.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from braid import api
from braid.home.control import Generation
from braid.home.metrics import MicroBatch, read_metrics
from tests.spark.cluster import Cluster, running, until
from tests.spark.killing import Place, Trial

STAGE = "left_out"
PLACED = "shards placed"
"""The event of the application's log that tells on which executors its state partitions are."""
GONE = -1
"""Stands for a worker whose executor is gone."""
SETTLED = 4
"""Micro-batches with rows, and without a shard that was built anew, after which it runs evenly."""
WAIT = 100.0


@dataclass(frozen=True)
class Recovery:
    """What followed when something was taken away or given.

    Parameters
    ----------
    seconds
        Until the first micro-batch was committed that took in rows and did without what was lost.
    moved
        Shards that were on what was taken away, or are on what was given.
    rebuilt
        Shards that were built from state and log in that micro-batch.
    later
        And those after it, until it ran evenly again.
    """

    seconds: float
    moved: int
    rebuilt: int
    later: int


class Losing:
    """A join on a cluster that loses and gains executors.

    Parameters
    ----------
    cluster, trial
        Where it runs, and what.
    """

    def __init__(self, cluster: Cluster, trial: Trial) -> None:
        self._cluster = cluster
        self._application = trial.home.application("killed")
        self._home = trial.home

    def settle(self, since: float) -> list[MicroBatch]:
        """Wait until it runs evenly; returns all micro-batches since a time."""

        def settled() -> bool:
            return _evenly(self._since(since)) or not self._application.is_running()

        until(settled, WAIT, "it does not run evenly")
        assert self._application.is_running()
        return self._since(since)

    def lose(self, what: Callable[[int], None], number: int) -> Recovery:
        """Take something away from the cluster, on a worker or the worker itself."""
        held = self.where().get(number, 0)
        lost = time.time()
        what(number)
        found = self.settle(lost)
        # One that was under way and needed nothing of what was lost tells nothing.
        first = next(
            one for one in found if one.counters.rows_in and (one.counters.rebuilt or _at(one) > lost)
        )
        later = sum(one.counters.rebuilt for one in found if one.batch > first.batch)
        until(lambda: GONE not in self.where(), WAIT, "nobody has taken over its shards")
        return Recovery(round(first.time - lost, 2), held, first.counters.rebuilt, later)

    def where(self) -> Mapping[int, int]:
        """How many shards each worker has, of those that have some, as the application has logged it last."""
        path = self._application.root / "braid.log"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        events = [json.loads(line) for line in lines]
        placed = [one["executors"] for one in events if one["event"] == PLACED and one["stage"] == STAGE]
        if not placed:
            return {}
        shards, partitions = self.layout()
        workers = self._cluster.numbers()
        return Counter(workers.get(placed[-1][shard * partitions // shards], GONE) for shard in range(shards))

    def spread(self, number: int) -> Recovery:
        """Have shards spread when a worker has an executor; returns what was moved to it, and when.

        The application does it by itself once an executor has been there for long enough.
        """
        until(lambda: self._cluster.has_executor(number), WAIT, "no executor comes")
        asked = time.time()
        api.rescale("killed", self._home)
        until(lambda: self.where().get(number, 0) > 0, WAIT, "no shards are moved")
        moved = self.where()[number]
        found = [one for one in self.settle(asked) if one.counters.rebuilt]
        if not found:
            return Recovery(0.0, moved, 0, 0)
        rebuilt, *later = [one.counters.rebuilt for one in found]
        return Recovery(round(found[0].time - asked, 2), moved, rebuilt, sum(later))

    def spread_at_start(self) -> None:
        """Wait until every worker has shards."""
        until(self._application.is_running, WAIT, "it does not start")
        until(lambda: sorted(self.where()) == self._cluster.workers, WAIT, "shards are not spread")
        self.settle(0.0)

    def layout(self) -> tuple[int, int]:
        """Shards and state partitions."""
        found = self._generation()
        return found.shards, found.partitions

    def _generation(self) -> Generation:
        found = self._application.generation(STAGE)
        assert found is not None
        return found

    def _since(self, moment: float) -> list[MicroBatch]:
        path = self._application.metrics_file(STAGE)
        return [one for one in read_metrics(path) if one.time > moment] if path.exists() else []


def _evenly(found: list[MicroBatch]) -> bool:
    last = [one for one in found if one.counters.rows_in or one.counters.rebuilt][-SETTLED:]
    return len(last) == SETTLED and not any(one.counters.rebuilt for one in last)


def _at(batch: MicroBatch) -> float:
    return datetime.fromisoformat(batch.at).timestamp()


def told(losing: Losing, what: str, found: object) -> None:
    """Say what has happened, and how things are."""
    shards, partitions = losing.layout()
    print(f"{what}: {found}, {shards} shards, {partitions} partitions on {dict(losing.where())}", flush=True)


def run(rounds: int, seed: int) -> dict[str, list[object]]:
    """Lose and gain executors, drain, and return what differs from DuckDB per table."""
    with (
        tempfile.TemporaryDirectory(prefix="braid-lose-") as folder,
        running(Path(folder) / "cluster") as cluster,
        closing(Trial(Path(folder) / "home", seed, "left", Place.on(cluster, spark_cores_max="2"))) as trial,
    ):
        losing = Losing(cluster, trial)
        with trial.running():
            losing.spread_at_start()
            told(losing, "start", "spread")
            for _ in range(rounds):
                victim = max(losing.where())
                told(losing, "executor", losing.lose(cluster.kill_executor, victim))
                told(losing, "spread", losing.spread(victim))
                told(losing, "worker", losing.lose(cluster.kill_worker, victim))
                told(losing, "spread", losing.spread(cluster.add_worker()))
        trial.drain(600)
        return trial.differences()


def main() -> None:
    """Run as a script; the exit code says whether anything was lost or doubled."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    found = run(arguments.rounds, arguments.seed)
    print(json.dumps({name: len(rows) for name, rows in found.items()}))
    sys.exit(1 if any(found.values()) else 0)


if __name__ == "__main__":
    main()
