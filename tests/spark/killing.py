"""Kill and rescale a running application again and again while input keeps arriving, then ask DuckDB.

Run as a script: `python -m tests.spark.killing --kills 30 --rescales 20 --seed 1 [--victim NAME]
[--cluster]`. With rescales, half of the kills come while the application is being rescaled. With `--cluster`,
it runs on a standalone cluster of two workers, which is started for it.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from braid import api
from braid.api.data import publish
from braid.home.control import Rescale
from braid.home.paths import Home
from braid.spark.checkpoints import read_checkpoint
from braid.stores.lookup import LookupStore
from tests.spark.cluster import Cluster, running
from tests.spark.oracle import START, differences, read
from tests.spark.questions import Streams, one_to_one

HEAD = """
CREATE APPLICATION killed WITH (shards = 3, chunk_rows = 500, batch_rows = 4000, idle_timeout = '1 hour');
""" + "".join(
    f'CREATE INPUT TABLE {name} (id bigint, t timestamp, k string) FROM SCRIBE("{name}") '
    "TIME t IN MILLISECONDS;\n"
    for name in ("l", "r", "s")
)
FILED = "".join(
    f"CREATE INPUT TABLE filed_{name} (id bigint, t timestamp, k string) "
    f'FROM FILES("FOLDER/{name}", format = "parquet") TIME t;\n'
    for name in ("l", "r")
)
"""The same rows as files."""
WINDOW = "l.k = r.k AND r.t BETWEEN l.t - INTERVAL '20 seconds' AND l.t + INTERVAL '20 seconds'"
SOON = "r.t BETWEEN l.t AND l.t + INTERVAL '0.1 seconds'"
PAIR = "SELECT l.id AS lid, r.id AS rid FROM l"
CHAIN = f"""
SELECT l.id AS lid, r.id AS rid, s.id AS sid FROM l LEFT JOIN r ON {WINDOW}
LEFT JOIN s ON s.k = l.k AND s.t BETWEEN l.t - INTERVAL '10 seconds' AND l.t + INTERVAL '30 seconds'
"""

WAIT = 30.0
"""Seconds within which what is told to end has ended."""


def stored(category: str, select: str) -> str:
    """A table of the application."""
    return f'CREATE TABLE {category} AS {select} STORAGE SCRIBE(category = "{category}");\n'


def neighbours(streams: Streams) -> str:
    """Pairs of neighbours in time, of both directions."""
    near = [
        f"SELECT l.id AS lid, r.id AS rid FROM {a} ASOF JOIN {b} ON l.k = r.k AND {a}.t {sign} {b}.t"
        for a, b in (("l", "r"), ("r", "l"))
        for sign in (">=", "<")
    ]
    return " UNION ".join(near)


def once_each(streams: Streams) -> str:
    """Every left row with the first free right row of its window."""
    rows = ", ".join(
        f"({left}, {'NULL' if right is None else right})"
        for left, right in one_to_one(-20, 20, left=True)(streams)
    )
    return f"SELECT * FROM (VALUES {rows}) AS found(lid, rid)"


Query = str | Callable[[Streams], str]


@dataclass(frozen=True)
class Victim:
    """An application, and what must be in its categories: SQL, or a function of the streams that gives it."""

    program: str
    queries: dict[str, Query]


VICTIMS = {
    "interval": Victim(
        stored("left_out", f"{PAIR} LEFT JOIN r ON {WINDOW}")
        + stored(
            "full_out",
            f"SELECT l.id AS lid, r.id AS rid FROM filed_l AS l FULL JOIN filed_r AS r ON {WINDOW}",
        ),
        {kind: f"{PAIR} {kind[:4]} JOIN r ON {WINDOW}" for kind in ("left_out", "full_out")},
    ),
    "left": Victim(
        stored("left_out", f"{PAIR} LEFT JOIN r ON {WINDOW}"),
        {"left_out": f"{PAIR} LEFT JOIN r ON {WINDOW}"},
    ),
    "series": Victim(
        stored("pairs", f"{PAIR} TIMESERIES JOIN r ON l.k = r.k")
        + stored("asof", f"{PAIR} ASOF LEFT JOIN r MATCH_CONDITION (l.t >= r.t) ON l.k = r.k"),
        {"pairs": neighbours, "asof": f"{PAIR} ASOF LEFT JOIN r ON l.k = r.k AND l.t >= r.t"},
    ),
    "chain": Victim(stored("chain", CHAIN), {"chain": CHAIN}),
    "time_only": Victim(
        stored("soon", f"{PAIR} LEFT JOIN r ON {SOON}"), {"soon": f"{PAIR} LEFT JOIN r ON {SOON}"}
    ),
    "consume": Victim(
        stored("consumed", f"{PAIR} LEFT JOIN r ON {WINDOW} MATCH FIRST CONSUME"), {"consumed": once_each}
    ),
    "lookup": Victim(
        'CREATE TABLE latest AS SELECT k, t, id FROM r STORAGE LASER(table = "latest", key = (k));\n'
        + stored(
            "named", 'SELECT l.id AS lid, d.name AS name FROM l LEFT JOIN LOOKUP("names") AS d ON d.k = l.k'
        ),
        {
            "named": "SELECT id AS lid, CASE WHEN k[2:]::int % 2 = 0 THEN 'name of ' || k END AS name FROM l",
            "latest": "SELECT k, t, max(id) AS id FROM r WHERE k IS NOT NULL "
            "GROUP BY k, t QUALIFY row_number() OVER (PARTITION BY k ORDER BY t DESC) = 1",
        },
    ),
    "after": Victim(
        stored("after", f"{PAIR} LEFT JOIN r ON {WINDOW} EMIT UNMATCHED AFTER INTERVAL '5 seconds'"),
        {
            # A row that has come out padded stays alone; all others have all their matches.
            "after": "WITH padded AS (SELECT DISTINCT lid FROM got WHERE rid IS NULL) "
            f"SELECT * FROM ({PAIR} LEFT JOIN r ON {WINDOW}) WHERE lid NOT IN (FROM padded) "
            "UNION ALL SELECT lid, NULL FROM padded"
        },
    ),
}


def names() -> pa.Table:
    """What the lookup finds: names of every other key."""
    keys = [f"k{number}" for number in range(0, 200, 2)]
    return pa.table({"k": keys, "name": [f"name of {key}" for key in keys]})


def content(home: Home, category: str) -> pa.Table:
    """What the application has stored, in a category or in a lookup table."""
    store = LookupStore(home.root)
    if not store.has(category):
        return read(home, category)
    with store.open(category) as table:
        return pa.Table.from_batches(table.scan(time.time_ns() // 1000))


@dataclass
class Feed:
    """Publishes both streams, a second of event time at a time, until it is told to stop."""

    home: Home
    seed: int
    rows_per_second: int = 40
    streams: Streams = field(default_factory=lambda: {"l": [], "r": [], "s": []})

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
        self._thread.join(WAIT)
        if self._thread.is_alive():
            raise RuntimeError("publishing does not end")

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
            publish(name, fresh, self.home)
            self._file(name, fresh)
        self.seconds += 1

    def _file(self, name: str, rows: list[dict[str, Any]]) -> None:
        folder = self.home.root / "files" / name
        folder.mkdir(parents=True, exist_ok=True)
        times = pa.array([row["t"] * 1000 for row in rows], pa.timestamp("us", tz="UTC"))
        table = pa.table({"id": [row["id"] for row in rows], "t": times, "k": [row["k"] for row in rows]})
        pq.write_table(table, folder / ".written")
        (folder / ".written").rename(folder / f"second {self.seconds}.parquet")


@dataclass(frozen=True)
class Place:
    """Where an application runs: arguments of `braid run`, and variables of its process."""

    arguments: tuple[str, ...] = ("--master", "local[2]")
    environment: dict[str, str] | None = None

    @classmethod
    def on(cls, cluster: Cluster, cache: Path | None = None, **settings: str) -> Place:
        """On a cluster."""
        return cls(tuple(cluster.arguments(**settings)), cluster.environment(cache))


LOCAL = Place()


def launch(home: Home, program: Path, *extra: str, place: Place = LOCAL) -> subprocess.Popen[bytes]:
    """Start `braid run` in a process group of its own."""
    command = [sys.executable, "-m", "braid.cli", "run", str(program), "--home", str(home.root), *extra]
    return subprocess.Popen(
        [*command, *place.arguments],
        start_new_session=True,
        stderr=subprocess.DEVNULL,
        env=place.environment,
    )


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the application with everything that it has started, if it has not ended."""
    import psutil

    if process.poll() is not None:
        return
    parent = psutil.Process(process.pid)
    family = [parent, *parent.children(recursive=True)]
    for member in family:
        try:
            os.kill(member.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait(WAIT)


def progress(home: Home) -> int:
    """Micro-batches that all stages have finished, as their checkpoints tell; Spark removes old records."""
    last: dict[str, int] = {}
    application = home.application("killed")
    for path in (application.root / "checkpoints").glob("*/commits/[0-9]*"):
        stage = path.parent.parent.name.partition("@")[0]
        generation = application.generation(stage)
        first = 0 if generation is None else generation.first_batch
        last[stage] = max(last.get(stage, 0), first + int(path.stem) + 1)
    return sum(last.values())


def changing(home: Home) -> bool:
    """Whether a stage is between two generations: asked for a savepoint, or not yet begun from one."""
    application = home.application("killed")
    for path in (application.root / "control").glob("*.state.json"):
        stage = path.name.removesuffix(".state.json")
        generation = application.generation(stage)
        assert generation is not None
        begins = generation.savepoint is not None and read_checkpoint(application.checkpoint(stage)).done < 0
        if begins or application.control_file(stage, "seal").exists():
            return True
    return False


def layout(rng: random.Random) -> tuple[int, int]:
    """Shards and state partitions."""
    partitions = rng.choice([1, 1, 2, 4])
    return max(partitions, rng.choice([1, 2, 3, 5, 8])), partitions


class Trial:
    """An application that is killed again and again while input keeps arriving, in a folder of its own.

    Parameters
    ----------
    folder
        An empty one.
    seed
        Of the moments at which it is killed.
    victim
        Which application.
    place
        Where it runs.
    """

    def __init__(self, folder: Path, seed: int, victim: str = "interval", place: Place = LOCAL) -> None:
        self.place = place
        self._rng = random.Random(seed)
        self.killed_changing = 0
        self.victim = VICTIMS[victim]
        folder.mkdir(exist_ok=True)
        self.home = Home.at(folder)
        self.program = folder / "killed.sql"
        filed = FILED.replace("FOLDER", str(folder / "files"))
        self.program.write_text(HEAD + filed + self.victim.program)
        table = LookupStore(self.home.root).create(
            "names", pa.schema([("k", pa.string())]), pa.schema([("name", pa.string())])
        )
        with table:
            table.upsert(names(), writer="test", batch_id=0, now_us=time.time_ns() // 1000)
        self._feed = Feed(self.home, seed)
        self._feed.second()
        self._feed.start()

    def kill(self, *, rescaling: bool = False) -> int:
        """Start the application and kill it; returns how many micro-batches were done meanwhile.

        When it starts, it rescales to what its program says, unless the last run has left it like that.
        """
        before = progress(self.home)
        process = launch(self.home, self.program, place=self.place)
        try:
            self.reach(process)
            if rescaling:
                shards, partitions = layout(self._rng)
                asked = Rescale(id="killed", shards=shards, partitions=partitions)
                asked.write(self.home.application("killed").rescale_file)
                time.sleep(self._rng.random() * 3)
        finally:
            kill_group(process)
        self.killed_changing += changing(self.home)
        return progress(self.home) - before

    def rescale(self, times: int, seconds: float) -> list[float]:
        """Start the application, rescale it, and stop it; returns for how long a stage paused each time."""
        pauses = []
        with self.running() as process:
            self.begin(process)
            for _ in range(times):
                shards, partitions = layout(self._rng)
                done = api.rescale("killed", self.home, shards=shards, partitions=partitions)
                pauses += done.values()
                print(f"{shards} shards, {partitions} partitions: {done}", flush=True)
                time.sleep(self._rng.random() * seconds)
        return pauses

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        """The application runs, and is stopped in good order."""
        process = launch(self.home, self.program, place=self.place)
        try:
            yield process
            process.send_signal(signal.SIGINT)
            if process.wait(WAIT):
                raise RuntimeError("the application has failed")
        finally:
            kill_group(process)

    def begin(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until the application can be asked for something, and then for any moment."""
        started = time.monotonic()
        while not self.home.application("killed").is_running() and time.monotonic() - started < 90:
            time.sleep(0.02)
        self.reach(process)

    def reach(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for a moment of the life cycle: some micro-batches into the run, then anywhere within one."""
        started = time.monotonic()
        wanted = progress(self.home) + self._rng.randrange(0, 14)
        extra = self._rng.random() * 1.5
        while progress(self.home) < wanted and time.monotonic() - started < 90 and process.poll() is None:
            time.sleep(0.02)
        if process.poll() is not None:
            log = self.home.root / "apps" / "killed" / "spark.log"
            raise RuntimeError(f"the application ended by itself: {log.read_text()[-3000:]}")
        time.sleep(extra)

    def drain(self, seconds: float) -> None:
        """Let the input end, and the application work it off within some time."""
        self._feed.stop()
        process = launch(self.home, self.program, "--drain", place=self.place)
        try:
            code = process.wait(seconds)
        finally:
            kill_group(process)
        if code:
            raise RuntimeError("draining failed")

    def close(self) -> None:
        """Let the input end."""
        self._feed.stop()

    @property
    def streams(self) -> Streams:
        """What has been published."""
        return self._feed.streams

    def differences_of(self, found: pa.Table, query: Query) -> list[object]:
        """What differs between rows and DuckDB's."""
        sql = query if isinstance(query, str) else query(self.streams)
        return differences(found, sql, self.streams)

    def differences(self) -> dict[str, list[object]]:
        """What differs from DuckDB, per table."""
        result = {}
        for category, query in self.victim.queries.items():
            found = content(self.home, category)
            result[category] = self.differences_of(found, query)
            print(f"{category}: {found.num_rows} rows, {len(result[category])} differences", flush=True)
        result["totals"] = miscounted(self.home, self.streams)
        print(f"totals: {result['totals']}", flush=True)
        return result


def miscounted(home: Home, streams: Streams) -> list[object]:
    """Totals of the drained application that are not what is in the log."""
    (status,) = api.status(home.root)
    wrong: list[object] = []
    for name, stage in status.stages.items():
        totals = stage.totals
        wanted = {"rows_in": totals.rows_in, "rows_out": totals.rows_out, "decided": 0, "dead": {}}
        counted = {**wanted, "decided": 0, "dead": totals.dead}
        if stage.kind == "slicer":
            # The slicers of files are called after their join, and which side of it they are.
            source = stage.inputs["source"].category if stage.inputs else name.rpartition(".")[2][0]
            wanted["rows_in"] = len(streams[source]) if source in streams else rows_of(home, str(source))
            counted["rows_out"] += totals.filtered + totals.refused
            wanted["rows_out"] = wanted["rows_in"]
        else:
            wanted["rows_in"] = sum(rows_of(home, str(one.category)) for one in stage.inputs.values())
            known = [one for one in totals.inputs.values() if one.match_rate is not None]
            counted["decided"] = sum(one.decided for one in known)
            wanted["decided"] = sum(one.rows for one in known)
            if name in home.log().categories():
                wanted["rows_out"] = rows_of(home, name)
        if counted != wanted:
            wrong.append((name, counted, wanted))
    return wrong


def rows_of(home: Home, category: str) -> int:
    """Rows that were published in a category."""
    log = home.log().open(category).reader()
    return sum(log.commit(number).rows for number in range(log.first, log.latest() + 1))


@contextmanager
def clustered() -> Iterator[Place]:
    """Two workers of one core, which an application waits for."""
    with tempfile.TemporaryDirectory(prefix="braid-cluster-") as folder, running(Path(folder)) as cluster:
        yield Place.on(cluster, spark_cores_max="2")


def run(
    kills: int, rescales: int, seed: int, victim: str = "interval", place: Place = LOCAL
) -> dict[str, list[object]]:
    """Kill and rescale at seeded moments, drain, and return what differs from DuckDB per table."""
    with tempfile.TemporaryDirectory(prefix="braid-kill-") as folder:
        trial = Trial(Path(folder), seed, victim, place)
        for number in range(kills):
            started = time.monotonic()
            done = trial.kill(rescaling=rescales > 0 and number % 2 == 1)
            print(
                f"kill {number + 1}: after {done} micro-batches, {time.monotonic() - started:.1f} s",
                flush=True,
            )
        print(f"{trial.killed_changing} of {kills} kills between two generations of a stage", flush=True)
        if rescales:
            pauses = trial.rescale(rescales, seconds=5)
            print(f"pauses: median {median(pauses):.2f} s, longest {max(pauses):.2f} s", flush=True)
        trial.drain(3600)
        return trial.differences()


def main() -> None:
    """Run as a script; the exit code says whether anything was lost or doubled."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--rescales", type=int, default=0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--victim", choices=VICTIMS, default="interval")
    parser.add_argument("--cluster", action="store_true", help="on a standalone cluster of two workers")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    print(f"seed {arguments.seed}, {arguments.victim}, {'cluster' if arguments.cluster else 'local'}")
    with clustered() if arguments.cluster else nullcontext(LOCAL) as place:
        found = run(arguments.kills, arguments.rescales, arguments.seed, arguments.victim, place)
    print(json.dumps({name: len(rows) for name, rows in found.items()}))
    sys.exit(1 if any(found.values()) else 0)


if __name__ == "__main__":
    main()
