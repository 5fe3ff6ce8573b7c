"""Live runs: rows keep coming for minutes or hours; latency, CPU, memory and disk are watched over time."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from braid import api
from braid.home.paths import Home
from suite.environments import Environment
from suite.feed import PERIOD
from suite.latency import QUANTILES, Moments
from suite.live_feed import INTERVAL, LiveFeed
from suite.process import FailedError, Program, folder_size
from suite.spec import MINUTE, Query
from suite.systems import SYSTEMS, WORK, Folders, launched

APPLICATION, STAGE, RESULT = "bench", "joined", "result"
QUERY = Query("left", -3 * MINUTE, 3 * MINUTE, 30_000, 15 * MINUTE)
START_SECONDS = 120
SETTLING = 30.0
"""Seconds after the start that do not count."""
LAST_SECONDS = 30.0
"""Time for the last results to come, before a system is idle."""
SAMPLE_SECONDS = 10.0
DRAIN_SECONDS = 600


@dataclass(frozen=True)
class Live:
    """A live run.

    Parameters
    ----------
    system
        Its name.
    rate
        Rows per second and side.
    seconds
        How long rows come.
    idle
        How long the system is watched afterwards, without any row.
    options
        Of the application, for Braid.
    category
        Whether Braid reads raw categories of its log, instead of the files that others read.
    """

    system: str
    rate: float
    seconds: float
    idle: float = 60.0
    options: Mapping[str, str] = field(default_factory=dict)
    category: bool = False

    @property
    def title(self) -> str:
        """The run in a few words."""
        settings = "".join(f", {name} {value}" for name, value in self.options.items())
        source = ", from categories" if self.category else ""
        return f"{SYSTEMS[self.system].title}{source}{settings}"


def live_runs(systems: Sequence[str], rate: float | None, minutes: float) -> list[Live]:
    """A run of every system that can follow; Braid with a demanding and with a relaxed objective."""
    objectives = [{"latency": "1 second"}, {"latency": "3 seconds"}]
    return [
        Live(name, rate or 3_000.0, minutes * 60, options=options)
        for name in systems
        if SYSTEMS[name].follows
        for options in (objectives if name == "braid" else [{}])
    ]


@dataclass(frozen=True)
class Sample:
    """What a system has used at a moment, in seconds since 1970."""

    at: float
    cpu: dict[str, float]
    pss: dict[str, int]
    files: dict[str, int]
    bytes: dict[str, int]


@dataclass(frozen=True)
class Batch:
    """A micro-batch of Braid's join."""

    at: float
    milliseconds: float
    join_ms: float
    rows: int


@dataclass
class Record:
    """What a live run has shown."""

    run: Live
    began: float = 0.0
    ended: float = 0.0
    idle_until: float = 0.0
    samples: list[Sample] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    waits: list[tuple[float, float, float]] = field(default_factory=list)
    """When something was published, how long its result took, and how many results that were."""
    check: dict[str, int] = field(default_factory=dict)
    error: str | None = None

    def to_json(self) -> dict[str, object]:
        """Everything but single waits, which are summarised by the minute."""
        return {**asdict(replace(self, waits=[])), "latency": self.latency()}

    def latency(self) -> list[dict[str, float]]:
        """Quantiles of every minute, of what was published in it."""
        waits = np.array(self.waits, np.float64).reshape(-1, 3)
        minutes = ((waits[:, 0] - self.began) // 60).astype(np.int64)
        return [
            {"minute": int(minute), **quantiles(waits[minutes == minute, 1:])}
            for minute in np.unique(minutes)
        ]

    def overall(self) -> dict[str, float]:
        """Quantiles of the whole run, without its first seconds."""
        waits = np.array(self.waits, np.float64).reshape(-1, 3)
        return quantiles(waits[waits[:, 0] >= self.began + SETTLING, 1:])

    def cores(self, begin: float, end: float) -> float | None:
        """Cores used on average between two moments."""
        inside = [sample for sample in self.samples if begin <= sample.at <= end]
        if len(inside) < 2:
            return None
        used = sum(inside[-1].cpu.values()) - sum(inside[0].cpu.values())
        return used / (inside[-1].at - inside[0].at)


def quantiles(waits: Moments) -> dict[str, float]:
    """Quantiles of waits, given as rows of seconds and count."""
    if not len(waits):
        return {}
    order = np.argsort(waits[:, 0])
    share = np.cumsum(waits[order, 1]) / waits[:, 1].sum()
    return {
        name: round(float(waits[order, 0][min(np.searchsorted(share, q), len(order) - 1)]), 3)
        for name, q in QUANTILES.items()
    }


Check = Callable[[LiveFeed, Path, int, pa.Table], dict[str, int]]
"""Compares what was published with the folder of results, given the matches that Braid says it has lost, and
the rows that it lists."""


def run(live: Live, environment: Environment, check: Check) -> Record:
    """One live run."""
    WORK.mkdir(parents=True, exist_ok=True)
    base = Path(tempfile.mkdtemp(prefix="live-", dir=WORK))
    record = Record(live)
    try:
        _run(live, environment, base, record, check)
    except FailedError as error:
        record.error = str(error)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    return record


def _run(live: Live, environment: Environment, base: Path, record: Record, check: Check) -> None:
    system = SYSTEMS[live.system]
    work = base / "work"
    home = Home.at(work / "home")
    feed = LiveFeed(base / "feed", live.rate, QUERY.upper - QUERY.lower, home if live.category else None)
    feed.publish(0)  # systems look at the first files to learn the columns
    folders = Folders(feed.side("left"), feed.side("right"), feed.side("left"), feed.side("right"))
    if live.category:
        folders = replace(folders, left=Path("left"), right=Path("right"))
    with contextlib.ExitStack() as held:
        program = held.enter_context(
            launched(
                system,
                environment,
                QUERY,
                folders,
                mode="follow",
                period=PERIOD,
                options=live.options,
                work=work,
                category=live.category,
            )
        )
        program.wait_for("start", START_SECONDS)
        follower = held.enter_context(_following(home, base / "out")) if live.system == "braid" else None
        record.began = time.time()
        feed.start(live.seconds)
        _watch(program, feed, record, work, record.began + live.seconds)
        record.ended = time.time()
        _watch(program, feed, record, work, record.ended + LAST_SECONDS)
        _watch(program, feed, record, work, time.time() + live.idle)
        record.idle_until = time.time()
        moments = list(follower.moments) if follower else _moments(program)
        record.batches = [_batch(event) for event in program.events("batch") if event["stage"] == STAGE]
        if follower is not None:
            program.kill()
            _drain(system.name, environment, folders, live, work)
            follower.finish()
    record.waits = [
        (feed.published[int(number)], moment - feed.published[int(number)], count)
        for number, moment, count in np.concatenate(moments)
        if int(number) in feed.published and number > 0
    ]
    if follower is not None:
        letters = api.read(home.application(APPLICATION).dead_letter, home)
        record.check = check(feed, base / "out", lost_matches(home), letters)


def _watch(program: Program, feed: LiveFeed, record: Record, work: Path, until: float) -> None:
    """Sample until a moment; fail with the system, or with the feed."""
    while True:
        program.check()
        if feed.error is not None:
            raise FailedError(f"the feed failed: {feed.error}")
        cpu, pss = program.sample()
        places = {"log": work / "home" / "log", "rest": work}
        sizes = {name: folder_size(str(path)) for name, path in places.items()}
        files, size = ({name: each[i] for name, each in sizes.items()} for i in (0, 1))
        # A system's folder has everything of it: the rest is checkpoints, metrics, temporary files.
        files["rest"] -= files["log"]
        size["rest"] -= size["log"]
        record.samples.append(Sample(time.time(), cpu, pss, files, size))
        rest = until - time.time()
        if rest <= 0:
            return
        time.sleep(min(SAMPLE_SECONDS, rest))


def _batch(event: Mapping[str, object]) -> Batch:
    phases = event["milliseconds"]
    assert isinstance(phases, dict)
    return Batch(
        float(str(event["at"])),
        # Sources wait for something to read, and for the time to read it.
        float(phases.get("triggerExecution", 0)) - float(phases.get("latestOffset", 0)),
        float(str(event["join_ms"])),
        int(str(event["pending"])),
    )


def _moments(program: Program) -> list[Moments]:
    """What Spark and Flink report; see `suite.latency`."""
    parts = [event["moments"] for event in program.events("results") + program.events("snapshot")[-1:]]
    return [np.array(part, dtype=np.float64).reshape(-1, 3) for part in parts or [[]]]


def _drain(name: str, environment: Environment, folders: Folders, live: Live, work: Path) -> None:
    """After the process was killed, close all windows in another one."""
    program = launched(
        SYSTEMS[name],
        environment,
        QUERY,
        folders,
        mode="finish",
        period=PERIOD,
        options=live.options,
        work=work,
        category=live.category,
    )
    with program as drain:
        drain.wait_for("done", DRAIN_SECONDS)


class _Follower:
    """Reads Braid's results as they come, before retention takes them away, and keeps their ids."""

    def __init__(self, home: Home, folder: Path) -> None:
        self.moments: list[Moments] = [np.empty((0, 3))]
        self._home = home
        self._folder = folder
        self._stop = Event()
        self._thread = Thread(target=self._run, daemon=True)
        self._error: Exception | None = None
        folder.mkdir(parents=True)
        self._thread.start()

    def finish(self) -> None:
        """Read what is left, and end."""
        self._stop.set()
        self._thread.join()
        if self._error is not None:
            raise FailedError(f"results could not be read: {self._error}")

    def _run(self) -> None:
        try:
            reader = self._home.log().open(RESULT).reader()
            number = 0
            while True:
                last = self._stop.is_set()
                for commit in reader.poll(number - 1, 1000):
                    for batch in reader.rows(commit.id, ["l_id", "r_id"]):
                        self._take(batch, commit.id, commit.wall_time / 1e6)
                    number = commit.id + 1
                if last:
                    return
                self._stop.wait(INTERVAL)
        except Exception as error:  # noqa: BLE001  told by `finish`
            self._error = error

    def _take(self, batch: pa.RecordBatch, commit: int, moment: float) -> None:
        left, right = batch["l_id"], batch["r_id"]
        both = np.maximum(left.filter(right.is_valid()).to_numpy(), right.drop_null().to_numpy())
        numbers, counts = np.unique(both // PERIOD, return_counts=True)
        self.moments.append(np.column_stack([numbers, np.full(len(numbers), moment), counts]))
        if batch.num_rows:
            pq.write_table(pa.table(batch), self._folder / f"{commit:09d}-{len(self.moments)}.parquet")


@contextlib.contextmanager
def _following(home: Home, folder: Path) -> Iterator[_Follower]:
    follower = _Follower(home, folder)
    try:
        yield follower
    finally:
        follower._stop.set()


def lost_matches(home: Home) -> int:
    """Matches that Braid's join knows it has lost, of all its runs."""
    (status,) = api.status(home)
    return status.stages[STAGE].totals.lost_matches
