"""Streams for the programs in `examples/`: steady by the wall clock, and in event time fast."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from braid.api.data import Publisher
from braid.core.columns import RAW_COLUMN
from braid.core.json_lines import json_text
from braid.home.paths import Home

EXAMPLES = Path(__file__).parents[2] / "examples"
BEGIN = 1_700_000_000
GOLDEN = 0.618033988749895
"""The fractions of its multiples are spread evenly: shares are as wanted, without chance."""

Event = tuple[float, str, dict[str, object]]
"""When it arrives, in seconds since the beginning; where; and what."""


@dataclass(frozen=True)
class LiveStream:
    """The inputs of an example.

    Parameters
    ----------
    name
        Of the example.
    speed
        Seconds of event time in one of the wall clock.
    events
        What arrives within so many seconds, given the seconds, the rate and the speed.
    """

    name: str
    speed: float
    events: Callable[[float, float, float], Iterator[Event]]

    @property
    def program(self) -> str:
        """The program."""
        return (EXAMPLES / self.name / "app.sql").read_text()

    def seconds(self, seconds: float, rate: float) -> list[Mapping[str, list[str]]]:
        """Records by category, for every second by its number."""
        found: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for at, category, record in sorted(self.events(seconds, rate, self.speed), key=lambda one: one[0]):
            found[int(at)][category].append(json_text(record))
        return [found[second] for second in range(int(seconds))]


def _share(number: int, share: float) -> bool:
    return number * GOLDEN % 1 < share


def _first(seconds: float, rate: float, speed: float) -> Iterator[Event]:
    rng = random.Random(1)
    for n in range(int(seconds * rate)):
        at = n / rate
        right = {"eventtime": BEGIN + at * speed, "key": f"k{n}", "dim_two": "x", "dim_three": "one"}
        yield at, "right", right
        reacts = at + rng.uniform(-150, 150) / speed
        if reacts > 0:
            key = f"k{n}" if _share(n, 0.9) else f"none{n}"
            left = {"eventtime": BEGIN + reacts * speed, "key": key, "dim_one": "web", "metric": -n / 2}
            yield reacts + rng.random(), "left", left


def _clicks(seconds: float, rate: float, speed: float) -> Iterator[Event]:
    rng = random.Random(2)
    for n in range(int(seconds * rate)):
        at = n / rate
        # Two impressions of an ad to the same user, and one click or none.
        user = {"user_id": n // 2, "ad": n // 2 % 7}
        yield at, "impressions", {"t": BEGIN + at * speed, **user, "id": n}
        if n % 2 and _share(n // 2, 0.8):
            reacts = at + rng.uniform(1, 590) / speed
            yield reacts + rng.random(), "clicks", {"t": BEGIN + reacts * speed, **user, "id": n}


def _prices(seconds: float, rate: float, speed: float) -> Iterator[Event]:
    campaigns, gaps = 60, (40 * 60, 40 * 60, 40 * 60, 40 * 60, 100 * 60)
    for n in range(int(seconds * rate)):
        at = n / rate
        shown = {"t": BEGIN + at * speed, "campaign": f"c{n % campaigns}", "ad": n}
        yield at + 0.3, "ads_shown", shown
    for campaign in range(campaigns):
        at, number = -campaign / campaigns * sum(gaps) / speed, 0
        while at < seconds:
            if at > 0:
                price = {"t": BEGIN + at * speed, "campaign": f"c{campaign}", "price": 0.5 + number / 100}
                yield at, "ad_prices", price
            at, number = at + gaps[number % len(gaps)] / speed, number + 1


def _spindle(seconds: float, rate: float, speed: float) -> Iterator[Event]:
    machines = max(1, int(rate * 2 / speed))
    rng = random.Random(3)
    for series, column in (("spindle_speed", "rpm"), ("spindle_torque", "nm")):
        for machine in range(machines):
            at = rng.random() * 2 / speed
            while at < seconds:
                # In every three minutes, each machine says nothing of its torque for one.
                silent = column == "nm" and (at * speed + machine / machines * 180) % 180 < 60
                if not silent:
                    millis = int((BEGIN + at * speed) * 1000)
                    yield at, series, {"t": millis, "machine": f"mill-{machine}", column: rng.random() * 100}
                at += rng.uniform(1.5, 2.5) / speed


def _search(seconds: float, rate: float, speed: float) -> Iterator[Event]:
    rng = random.Random(4)
    for n in range(int(seconds * rate)):
        at = n / rate
        request = {"request_id": n, "query": "weather", "latency_ms": rng.expovariate(1 / 40)}
        yield at, "requests", {"event_time": int((BEGIN + at * speed) * 1_000_000), **request}
        reacts = at + min(rng.expovariate(1 / 90), 840) / speed
        late = rng.expovariate(1 / 60) / speed
        number = n if _share(n, 0.94) else -n
        event = {"request_id": number, "action": "click", "position": n % 10}
        yield (
            reacts + late,
            "client_events",
            {"event_time": int((BEGIN + reacts * speed) * 1_000_000), **event},
        )


def _orders(seconds: float, rate: float, speed: float) -> Iterator[Event]:
    rng, day = random.Random(5), 86_400
    for n in range(int(seconds * rate)):
        at = n / rate
        order = {"order_id": n}
        yield at, "orders", {"t": BEGIN + at * speed, **order, "item": "shelf"}
        if not _share(n, 0.95):
            continue
        delivered = at + rng.uniform(0.2, 2.9) * day / speed
        yield (
            delivered + rng.random(),
            "deliveries",
            {"t": BEGIN + delivered * speed, **order, "carrier": "north"},
        )
        if n % 4 == 0:
            returned = delivered + rng.uniform(0, 1.9) * day / speed
            yield (
                returned + rng.random(),
                "returns",
                {"t": BEGIN + returned * speed, **order, "reason": "broken"},
            )


def _visits(seconds: float, rate: float, speed: float) -> Iterator[Event]:
    for n in range(int(seconds * rate)):
        at = n / rate
        yield at, "visits", {"t": BEGIN + at * speed, "user_id": n % 40, "page": "/docs"}


STREAMS = {
    stream.name: stream
    for stream in (
        LiveStream("first", 20, _first),
        LiveStream("clicks", 60, _clicks),
        LiveStream("prices", 600, _prices),
        LiveStream("spindle", 4, _spindle),
        LiveStream("search", 90, _search),
        LiveStream("orders", 21_600, _orders),
        LiveStream("visits", 1, _visits),
    )
}


class Feed:
    """Publishes a stream, a commit per second: what was before now at once, and the rest as time goes by.

    Parameters
    ----------
    home
        Where to.
    stream, rate
        What, and how many rows of each main input per second.
    before, seconds
        How many seconds of it lie before now, and how many there are in all.
    """

    def __init__(self, home: Home, stream: LiveStream, rate: float, before: int, seconds: int) -> None:
        self._home, self._before = home, before
        self._seconds = stream.seconds(seconds, rate)
        self.published: dict[str, int] = defaultdict(int)
        self._began = time.time()
        for second, records in enumerate(self._seconds[:before]):
            wall = self._began - before + second + 1
            for category, texts in records.items():
                self._publish(category, texts, round(wall * 1_000_000))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._feed, daemon=True)

    def __enter__(self) -> Feed:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _feed(self) -> None:
        for second, records in enumerate(self._seconds[self._before :], 1):
            if self._over.wait(max(0.0, self._began + second - time.time())):
                return
            for category, texts in records.items():
                self._publish(category, texts)

    def _publish(self, category: str, texts: list[str], wall_time: int | None = None) -> None:
        if not self._home.log().has(category):
            Publisher(category, self._home)
        target = self._home.log().open(category)
        target.append(pa.table({RAW_COLUMN: pa.array(texts, pa.string())}), wall_time=wall_time)
        self.published[category] += len(texts)
