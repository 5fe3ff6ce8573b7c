"""Many applications on one machine: how far behind they are, what they cost, how the service answers.

Run as a script: `python -m tests.service.loading --apps 16 --rate 200 --seconds 300 --pool small`, or without
`--pool` for a driver each. Rows of both sides arrive all the time; a result is late by the time from the
publication of its rows to the commit that it is in. Every left row has one partner, so that what has to come
out is known.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np
import psutil
import pyarrow as pa

from braid.client.http import Client, service_of
from braid.client.models import Deploy
from braid.home.service import Resources
from braid.log.shared import reader
from tests.service.serving import Served, until

WAIT = 600.0
PARTNERS = 50
PROGRAM = """
CREATE APPLICATION {name} WITH (latency = '{latency} seconds');
CREATE INPUT TABLE l (id bigint, t timestamp, k string, sent bigint) FROM SCRIBE("{name}_l") TIME t;
CREATE INPUT TABLE r (id bigint, t timestamp, k string) FROM SCRIBE("{name}_r") TIME t;
CREATE TABLE {name}_out AS SELECT l.id AS lid, r.id AS rid, l.sent AS sent FROM l LEFT JOIN r ON l.k = r.k
  AND r.t BETWEEN l.t - INTERVAL '10 seconds' AND l.t + INTERVAL '10 seconds'
  STORAGE SCRIBE(category = "{name}_out");
"""


@dataclass
class Feed:
    """Publishes rows of both sides of one application, a commit a second."""

    served: Served
    name: str
    rate: int
    over: threading.Event
    rows: int = 0

    def run(self) -> None:
        """Publish until it is told to end."""
        from braid.api.data import publish

        time.sleep(random.random())
        due = time.monotonic()
        while not self.over.is_set():
            ids = range(self.rows, self.rows + self.rate)
            now = time.time()
            right = [f'{{"id": {i}, "t": {now + i % 97 / 100:.2f}, "k": "k{i}"}}' for i in ids]
            left = [
                f'{{"id": {i}, "t": {now + i % 89 / 100:.2f}, "k": "k{i}", "sent": {int(now * 1e6)}}}'
                for i in ids
            ]
            publish(f"{self.name}_r", right, self.served.home)
            publish(f"{self.name}_l", left, self.served.home)
            self.rows += self.rate
            due += 1.0
            self.over.wait(max(0.0, due - time.monotonic()))


@dataclass
class Requests:
    """Asks the service so many times a second, and remembers how long each answer took."""

    url: str
    token: str
    names: list[str]
    over: threading.Event
    rate: float
    seconds: list[float] = field(default_factory=list)
    failed: int = 0

    def run(self) -> None:
        """Ask until it is told to end."""
        paths = self._paths()
        with httpx.Client(
            base_url=f"{self.url}/api/v1", headers={"Authorization": f"Bearer {self.token}"}, trust_env=False
        ) as http:
            due = time.monotonic()
            while not self.over.is_set():
                began = time.monotonic()
                answer = http.get(next(paths), timeout=60)
                self.seconds.append(time.monotonic() - began)
                self.failed += answer.is_error
                due += 1 / self.rate
                self.over.wait(max(0.0, due - time.monotonic()))

    def _paths(self) -> Iterator[str]:
        rng = random.Random(1)
        while True:
            name = rng.choice(self.names)
            one = (f"/applications/{name}", f"/applications/{name}/versions", f"/events?application={name}")
            yield rng.choice(("/health", "/service", "/applications", "/events", "/categories", *one))


class Load:
    """A service with applications to which rows arrive.

    Parameters
    ----------
    root
        An empty folder.
    options
        Of the command line.
    """

    def __init__(self, root: Path, options: argparse.Namespace) -> None:
        self.served = Served(root / "home")
        self.options = options
        self.over = threading.Event()
        names = [f"app{number:02d}" for number in range(options.apps)]
        self.feeds = {name: Feed(self.served, name, options.rate, self.over) for name in names}
        self.threads: list[threading.Thread] = []
        self.asking = threading.Event()
        self.requests: list[Requests] = []

    def spawn(self, target: Feed | Requests) -> None:
        """Run something in a thread of its own."""
        thread = threading.Thread(target=target.run, daemon=True)
        thread.start()
        self.threads.append(thread)

    def begin(self) -> None:
        """Start the service and deploy one application after the other, with rows arriving."""
        self.served.start()
        took = []
        for name, feed in self.feeds.items():
            self.spawn(feed)
            until(lambda name=name: self.served.home.log().has(f"{name}_l"), "no rows", WAIT)  # type: ignore[misc]
            time.sleep(self.options.backlog)
            began = time.monotonic()
            with self.client() as client:
                client.deploy(
                    Deploy(
                        program=PROGRAM.format(name=name, latency=self.options.latency),
                        resources=Resources(pool=self.options.pool, memory=self.options.memory),
                    )
                )
            until(lambda name=name: self.rows(name) > 0, f"nothing comes out of {name}", WAIT)  # type: ignore[misc]
            took.append(time.monotonic() - began)
            print(f"{name}: {took[-1]:.1f} s from deploy to the first joined row", flush=True)
        rest = sorted(took[1:]) or took
        print(
            f"deploy to first row: first {took[0]:.1f} s, others median {rest[len(rest) // 2]:.1f} s",
            flush=True,
        )

    def client(self) -> Client:
        """Whoever asks the service."""
        found = service_of(self.served.home)
        assert found is not None
        return found

    def rows(self, name: str) -> int:
        """How many rows have come out of an application."""
        if not self.served.home.log().has(f"{name}_out"):
            return 0
        found = self.served.home.log().open(f"{name}_out").statistics()
        return int(found.rows)

    def measure(self) -> None:
        """Let rows arrive for a while, and say what it took."""
        time.sleep(self.options.settle)
        began, cpu = time.time(), self.cpu()
        address = self.client()
        token = self.served.folder.token_file.read_text().strip()
        for _ in range(8):
            asked = Requests(address.url, token, list(self.feeds), self.over, self.options.requests / 8)
            self.requests.append(asked)
            self.spawn(asked)
        while (now := time.time()) - began < self.options.seconds:
            time.sleep(min(30.0, began + self.options.seconds - now + 0.01))
            self.tell(began, cpu)

    def tell(self, began: float, cpu: dict[str, float]) -> None:
        """Say how it goes."""
        seconds = time.time() - began
        used = {name: (now - cpu.get(name, 0.0)) / seconds for name, now in self.cpu().items()}
        memory = {name: size / 2**20 for name, size in self.memory().items()}
        waits = np.sort(np.concatenate([self.waits(name, began) for name in self.feeds]))
        took = np.sort([one for asked in self.requests for one in list(asked.seconds)])
        backlog = max(feed.rows - self.rows(name) for name, feed in self.feeds.items())
        print(
            f"{seconds:5.0f} s: {len(waits)} commits of results; late by p50 {quantile(waits, 0.5):.1f}, "
            f"p99 {quantile(waits, 0.99):.1f}, most {quantile(waits, 1):.1f} s; "
            f"furthest behind {backlog} rows; "
            f"memory (PSS) drivers {memory['drivers']:,.0f} MB, service {memory['service']:,.0f} MB; "
            f"cores drivers {used['drivers']:.2f}, service {used['service']:.2f}; "
            f"{len(took)} requests: p50 {1000 * quantile(took, 0.5):.0f} ms, "
            f"p99 {1000 * quantile(took, 0.99):.0f} ms, most {1000 * quantile(took, 1):.0f} ms, "
            f"{sum(asked.failed for asked in self.requests)} failed",
            flush=True,
        )

    def waits(self, name: str, since: float) -> np.ndarray:
        """By how much the oldest row of each commit of results is late, in seconds."""
        source = reader(str(self.served.home.log_root), f"{name}_out")
        found = []
        for number in range(source.latest(), -1, -1):
            commit = source.commit(number)
            if commit.wall_time < since * 1e6:
                break
            for batch in source.rows(number, ["sent"]):
                if batch.num_rows:
                    found.append((commit.wall_time - pa.compute.min(batch["sent"]).as_py()) / 1e6)
        return np.array(found)

    def processes(self) -> dict[str, list[psutil.Process]]:
        """Processes of drivers, and of the service."""
        leaders = {driver.pid for name in self.feeds if (driver := self.served.driver(name)) is not None}
        drivers = [one for pid in leaders for one in family(pid)]
        known = {one.pid for one in drivers}
        return {
            "drivers": drivers,
            "service": [one for one in family(self.served.pid) if one.pid not in known],
        }

    def cpu(self) -> dict[str, float]:
        """Seconds of CPU by now."""
        return {name: sum(sum(times(one)) for one in members) for name, members in self.processes().items()}

    def memory(self) -> dict[str, float]:
        """Bytes, in which pages that processes share count once."""
        return {name: float(sum(map(pss, members))) for name, members in self.processes().items()}

    def finish(self) -> int:
        """Let the input end, and count rows that are missing or too many."""
        self.over.set()
        for thread in self.threads:
            thread.join()
        end, wrong = time.monotonic() + 120, 0
        for name, feed in self.feeds.items():
            # Rows of the last seconds wait for stream time.
            while self.rows(name) < feed.rows - 30 * self.options.rate and time.monotonic() < end:
                time.sleep(0.5)
            source = reader(str(self.served.home.log_root), f"{name}_out")
            found = [
                batch.select(["lid", "rid"])
                for number in range(source.latest() + 1)
                for batch in source.rows(number, ["lid", "rid"])
            ]
            table = pa.Table.from_batches(found)
            left, right = table["lid"].to_numpy(), table["rid"].to_numpy()
            matched = int((left == right).sum())
            twice = len(left) - len(np.unique(left))
            behind = feed.rows - len(left)
            if twice or matched != len(left) or behind > 30 * self.options.rate:
                wrong += 1
            print(
                f"{name}: {feed.rows} rows, {matched} matched, {twice} twice, {behind} in flight", flush=True
            )
        return wrong


def family(pid: int) -> list[psutil.Process]:
    """A process with all that it has started."""
    try:
        found = psutil.Process(pid)
        return [found, *found.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def times(process: psutil.Process) -> tuple[float, ...]:
    """CPU of a process, and of its children that have ended."""
    try:
        return tuple(process.cpu_times()[:4])
    except psutil.NoSuchProcess:
        return (0.0,)


def pss(process: psutil.Process) -> int:
    """Its part of the memory that it uses."""
    try:
        return int(process.memory_full_info().pss)
    except psutil.Error:
        return 0


def quantile(ordered: np.ndarray, share: float) -> float:
    """A quantile of sorted values."""
    return float(np.quantile(ordered, share)) if len(ordered) else float("nan")


def main() -> None:
    """Run as a script; the exit code says whether rows are missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--apps", type=int, default=16)
    parser.add_argument("--rate", type=int, default=200, help="rows per second and side")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--settle", type=float, default=30)
    parser.add_argument("--requests", type=float, default=50, help="per second")
    parser.add_argument("--latency", type=float, default=10, help="the applications' objective, in seconds")
    parser.add_argument("--backlog", type=float, default=0, help="seconds of rows before each deploy")
    parser.add_argument("--pool")
    parser.add_argument("--memory")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="braid-load-") as folder:
        load = Load(Path(folder), options)
        try:
            load.begin()
            load.measure()
            sys.exit(load.finish() > 0)
        finally:
            load.over.set()
            load.served.close()


if __name__ == "__main__":
    main()
