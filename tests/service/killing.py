"""Kill the service and its drivers again and again, while rows arrive and versions are deployed; ask DuckDB.

Run as a script: `python -m tests.service.killing --services 50 --drivers 30 --apps 6 --seed 1`. In the end
every application runs the version that was accepted last, no driver was started without a reason, and what
has come out is what DuckDB says.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import duckdb
import psutil
import pyarrow as pa
from sqlalchemy import select

from braid.api.data import publish, read
from braid.client.http import AnswerError, Client, service_of
from braid.client.models import Deploy
from braid.service.registry.database import Database
from braid.service.registry.tables import Start
from tests.service.serving import Served, until

BEGIN = 1_700_000_000
WAIT = 300.0
PROGRAM = """
CREATE APPLICATION {name}
  WITH (shards = 2, idle_timeout = '1 hour', slack = '{slack} seconds', latency = '10 seconds');
CREATE INPUT TABLE l (id bigint, t timestamp, k string) FROM SCRIBE("l") TIME t;
CREATE INPUT TABLE r (id bigint, t timestamp, k string) FROM SCRIBE("r") TIME t;
CREATE TABLE {name}_out AS SELECT l.id AS lid, r.id AS rid FROM l JOIN r ON l.k = r.k
  AND r.t BETWEEN l.t - INTERVAL '5 seconds' AND l.t + INTERVAL '5 seconds'
  STORAGE SCRIBE(category = "{name}_out");
"""


class Marathon:
    """A service with applications.

    Parameters
    ----------
    root
        An empty folder.
    names
        Of the applications.
    seed
        Of the moments at which things are killed.
    """

    def __init__(self, root: Path, names: list[str], seed: int) -> None:
        self.served = Served(root / "home")
        self.names = names
        self.rng = random.Random(seed)
        self.rows: dict[str, list[dict[str, object]]] = {"l": [], "r": []}
        self.accepted = dict.fromkeys(names, 0)
        self.expected_starts: Counter[str] = Counter()
        self._over = threading.Event()
        self._feeder = threading.Thread(target=self._feed, daemon=True)

    @contextmanager
    def client(self) -> Iterator[Client]:
        """Whoever asks the service."""
        found = service_of(self.served.home)
        assert found is not None
        with found:
            yield found

    def begin(self) -> None:
        """Start the service, deploy everything, and let rows arrive."""
        self._publish()
        self._feeder.start()
        self.served.start()
        for name in self.names:
            began = time.monotonic()
            assert self.deploy(name)
            until(lambda name=name: self.runs(name), f"{name} does not run", WAIT)  # type: ignore[misc]
            print(f"{name} runs after {time.monotonic() - began:.1f} s", flush=True)

    def deploy(self, name: str) -> bool:
        """Deploy another version; whether the service has said that it has landed."""
        slack = self.rng.randrange(20, 10_000)
        try:
            with self.client() as client:
                version = client.deploy(Deploy(program=PROGRAM.format(name=name, slack=slack)))
        except (AnswerError, AssertionError):
            return False
        self.accepted[name] = version.number
        return True

    def runs(self, name: str) -> bool:
        """Whether the version that was accepted last runs."""
        try:
            with self.client() as client:
                info = client.application(name)
        except (AnswerError, AssertionError):
            return False
        return info.state == "running" and info.running_version == self.accepted[name]

    def pids(self) -> dict[str, int]:
        """Drivers, by their applications."""
        found = {name: self.served.driver(name) for name in self.names}
        return {name: driver.pid for name, driver in found.items() if driver is not None}

    def kill_service(self) -> None:
        """Kill the service at some moment, perhaps just when a version is deployed, and start another."""
        deploying = self.rng.random() < 0.2
        name = self.rng.choice(self.names)
        before = self.pids()
        known = self.accepted[name]
        asking = threading.Thread(target=self.deploy, args=(name,))
        if deploying:
            asking.start()
        time.sleep(self.rng.random() * (0.3 if deploying else 1.0))
        self.served.end(signal.SIGKILL)
        if deploying:
            asking.join()
        self.served.start()
        if deploying:
            # It may have landed without anybody having been told.
            with self.client() as client:
                self.accepted[name] = client.versions(name)[-1].number
            until(lambda: self.runs(name), f"{name} does not run", WAIT)
            self.expected_starts[name] += self.accepted[name] - known
        time.sleep(self.rng.random() * 2)
        others = {one: pid for one, pid in before.items() if one != name or self.accepted[name] == known}
        changed = {one for one, pid in others.items() if self.pids()[one] != pid}
        assert not changed, f"drivers of {changed} were started again"

    def kill_driver(self) -> float:
        """Kill a driver; after how many seconds another one runs."""
        name = self.rng.choice(self.names)
        time.sleep(self.rng.random() * 3)
        before = self.pids()[name]
        began = time.monotonic()
        self.served.kill_driver(name)
        self.expected_starts[name] += 1
        until(lambda: self.runs(name) and self.pids()[name] != before, f"{name} is not back", WAIT)
        return time.monotonic() - began

    def stop_driver(self, limit: float = 45.0) -> None:
        """Let a driver sleep for longer than it may, until it is replaced; then its remains go on."""
        name = self.rng.choice(self.names)
        before = self.pids()[name]
        sleeper = psutil.Process(before)
        family = [sleeper, *sleeper.children(recursive=True)]
        for member in family:
            member.suspend()
        self.expected_starts[name] += 1
        time.sleep(limit)
        until(lambda: self.runs(name) and self.pids()[name] != before, f"{name} is not replaced", WAIT)
        for member in family:
            if member.is_running():
                member.resume()

    def cut_power(self) -> float:
        """Kill everything at once, and start the service; after how many seconds all run."""
        self.served.end(signal.SIGKILL)
        for name in self.names:
            self.served.kill_driver(name)
            self.expected_starts[name] += 1
        began = time.monotonic()
        self.served.start()
        until(lambda: all(self.runs(name) for name in self.names), "not all are back", WAIT)
        return time.monotonic() - began

    def finish(self) -> dict[str, object]:
        """Let the input end, and say what is wrong."""
        self._over.set()
        self._feeder.join()
        wanted = self._answer()
        end = time.monotonic() + WAIT
        wrong: dict[str, object] = {}
        for name in self.names:
            while self.output(name) != wanted and time.monotonic() < end:
                time.sleep(0.5)
            found = self.output(name)
            wrong[name] = sum((found - wanted).values()) + sum((wanted - found).values())
            print(f"{name}: {found.total()} rows, {wrong[name]} differences", flush=True)
            assert self.runs(name)
        for name, starts in self.starts().items():
            expected = 1 + self.expected_starts[name]
            print(f"{name}: {starts} starts, {expected} expected", flush=True)
            wrong[f"starts of {name}"] = abs(starts - expected)
        return {what: count for what, count in wrong.items() if count}

    def starts(self) -> Counter[str]:
        """How often drivers were started."""
        database = Database(f"sqlite:///{self.served.folder.registry_file}")
        with database.reading() as session:
            return Counter(session.scalars(select(Start.application)))

    def output(self, name: str) -> Counter[tuple[int, int]]:
        """What an application has stored."""
        category = f"{name}_out"
        if not self.served.home.log().has(category):
            return Counter()
        rows = read(category, self.served.home)
        return Counter(zip(rows["lid"].to_pylist(), rows["rid"].to_pylist(), strict=True))

    def memory(self) -> int:
        """Bytes of all drivers with what they have started."""
        return sum(
            member.memory_info().rss
            for pid in self.pids().values()
            for member in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        )

    def close(self) -> None:
        """End everything."""
        self._over.set()
        self.served.close()

    def _feed(self) -> None:
        while not self._over.wait(0.5):
            self._publish()

    def _publish(self) -> None:
        for name, rows in self.rows.items():
            fresh = [
                {
                    "id": len(rows) + i,
                    "t": BEGIN + (len(rows) + i) / 40,
                    "k": f"k{(len(rows) + i) * 7919 % 101}",
                }
                for i in range(20)
            ]
            publish(name, fresh, self.served.home)
            rows += fresh

    def _answer(self) -> Counter[tuple[int, int]]:
        with duckdb.connect() as connection:
            for name, rows in self.rows.items():
                columns = {column: [row[column] for row in rows] for column in ("id", "t", "k")}
                connection.register(name, pa.table(columns))
            query = "SELECT l.id, r.id FROM l JOIN r ON l.k = r.k AND r.t BETWEEN l.t - 5 AND l.t + 5"
            return Counter(connection.execute(query).fetchall())


def run(services: int, drivers: int, apps: int, seed: int) -> dict[str, object]:
    """Kill, and return what is wrong."""
    with tempfile.TemporaryDirectory(prefix="braid-service-") as folder:
        marathon = Marathon(Path(folder), [f"app{number}" for number in range(apps)], seed)
        try:
            marathon.begin()
            print(f"memory of all drivers: {marathon.memory() >> 20} MB", flush=True)
            for number in range(services):
                marathon.kill_service()
                print(f"kill {number + 1} of the service", flush=True)
            seconds = []
            for number in range(drivers):
                seconds.append(marathon.kill_driver())
                print(f"kill {number + 1} of a driver: back after {seconds[-1]:.1f} s", flush=True)
            if seconds:
                print(f"back after: median {median(seconds):.1f} s, longest {max(seconds):.1f} s", flush=True)
            marathon.stop_driver()
            print("a driver that slept was replaced", flush=True)
            print(f"power cut: all are back after {marathon.cut_power():.1f} s", flush=True)
            return marathon.finish()
        finally:
            marathon.close()


def main() -> None:
    """Run as a script; the exit code says whether anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--services", type=int, default=5)
    parser.add_argument("--drivers", type=int, default=5)
    parser.add_argument("--apps", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    wrong = run(options.services, options.drivers, options.apps, options.seed)
    print(json.dumps(wrong), flush=True)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
