"""Totals add up to what was published, whoever is killed, and whenever."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from braid.core.counters import Counters, InputCounters, merge
from braid.engine.run_metrics import Progress, RunStatus, StageMetrics
from braid.home.counted import Counted
from braid.home.files import write_json
from braid.home.metrics import read_metrics
from braid.home.paths import AppHome, Home
from braid.home.status import RunState, read_status
from braid.home.totals import read_totals

BATCHES = 8


class Killed(BaseException):
    """The process is gone."""


class Mortal:
    """Kills before one of the next durable steps: a file that is put in place, or removed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._left = -1
        monkeypatch.setattr(os, "fsync", lambda descriptor: None)
        for name in ("replace", "unlink"):
            real = getattr(Path, name)

            def step(path: Path, *more: object, _real: object = real, **named: object) -> object:
                self.step()
                return _real(path, *more, **named)  # type: ignore[operator]

            monkeypatch.setattr(Path, name, step)

    def step(self) -> None:
        self._left -= 1
        if self._left == 0:
            raise Killed

    @contextmanager
    def within(self, steps: int) -> Iterator[None]:
        self._left = steps
        try:
            yield
        finally:
            self._left = -1


class Life:
    """An application of one stage: its sink, Spark's commits, and a driver that adds up."""

    def __init__(self, app: AppHome, rng: random.Random, mortal: Mortal) -> None:
        self.app, self.rng, self.mortal = app, rng, mortal
        self.published: dict[int, Counters] = {}
        self.committed = -1

    def run(self, *, graceful: bool) -> None:
        metrics = StageMetrics(self.app, "j", "join")
        metrics.begin()
        write_json(self.app.checkpoint("j") / "metadata", {"id": "of this test"})
        while self.committed < BATCHES - 1:
            batch = self.committed + 1
            if batch not in self.published:
                self.mortal.step()
                lost = {"late": self.rng.randrange(3)}
                left = InputCounters(rows=self.rng.randrange(9), matched=batch, lost=lost)
                self.published[batch] = Counters(rows_out=7 + batch, dead={"x": 1}, inputs={"left": left})
            Counted(batch, batch + 5, 0.5, self.published[batch]).write(self.app.counts_folder, "j")
            self.mortal.step()
            self.committed = batch
            if self.rng.random() < 0.7:
                metrics.take([Progress(batch, "now", 0, {"addBatch": 1})])
            if self.rng.random() < 0.5:
                metrics.save()
            if not graceful and self.rng.random() < 0.1:
                raise Killed
        metrics.take((), final=True)
        metrics.save()


@pytest.fixture
def app(tmp_path: Path) -> AppHome:
    app = Home.at(tmp_path / "home").application("demo")
    app.counts_folder.mkdir(parents=True)
    return app


@pytest.mark.parametrize("seed", range(40))
def test_totals_are_exact_after_any_kills(app: AppHome, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    life = Life(app, rng, Mortal(monkeypatch))
    for _ in range(rng.randrange(1, 9)):
        try:
            with life.mortal.within(rng.randrange(1, 30)):
                life.run(graceful=False)
        except Killed:
            found = read_totals(app, "j")
            done = [life.published[batch] for batch in range(life.committed + 1)]
            assert (Counters() if found is None else found.counters) in (
                merge(done),
                merge(life.published.values()),
            )
    life.run(graceful=True)
    totals = read_totals(app, "j")
    assert totals is not None
    assert totals.counters == merge(life.published.values())
    assert (totals.first, totals.batch) == (0, BATCHES - 1)
    assert list(app.counts_folder.iterdir()) == []
    lines = [line.batch for line in read_metrics(app.metrics_file("j"))]
    assert len(lines) == len(set(lines))


def counted(app: AppHome, batch: int, counts: Counters) -> None:
    Counted(batch, batch, 1.0, counts).write(app.counts_folder, "j")


def begun(app: AppHome) -> StageMetrics:
    metrics = StageMetrics(app, "j", "join")
    metrics.begin()
    return metrics


def test_totals_begin_anew_with_the_checkpoint_and_not_before(app: AppHome) -> None:
    checkpoint = app.checkpoint("j") / "metadata"
    metrics = begun(app)
    write_json(checkpoint, {"id": "one"})
    counted(app, 0, Counters(matches=3))
    metrics.take((), final=True)
    metrics.save()
    metrics = begun(app)
    counted(app, 1, Counters(matches=4))
    metrics.take((), final=True)
    assert (metrics.status().totals.matches, metrics.status().run.matches) == (7, 4)
    metrics.save()
    counted(app, 2, Counters(matches=5))
    checkpoint.unlink()
    assert begun(app).status().totals == Counters()
    assert read_totals(app, "j") is None


def test_a_killed_application_is_asked_for_all_that_it_published(app: AppHome) -> None:
    metrics = begun(app)
    write_json(app.checkpoint("j") / "metadata", {"id": "one"})
    counted(app, 0, Counters(matches=3))
    metrics.take([Progress(0, "now", 0, {"addBatch": 1})])
    metrics.save()
    RunStatus(app, RunState.RUNNING).write({"j": metrics})
    counted(app, 1, Counters(matches=4))
    status = read_status(app)
    assert status is not None
    assert status.state is RunState.KILLED
    assert (status.stages["j"].totals.matches, status.stages["j"].recent) == (7, ())


def test_what_spark_has_not_reported_yet_waits_for_its_timings(app: AppHome) -> None:
    metrics = begun(app)
    counted(app, 0, Counters(matches=1))
    assert metrics.expects()
    counted(app, 1, Counters(matches=1))
    assert metrics.take([Progress(0, "now", 0, {"triggerExecution": 1})]) == []
    (first,) = metrics.take([Progress(0, "now", 0, {"addBatch": 7})])
    assert (first.batch, first.duration_ms) == (0, {"addBatch": 7})
    # Spark keeps a hundred reports: what it no longer has is counted all the same.
    counted(app, 2, Counters(matches=1))
    assert [one.batch for one in metrics.take([Progress(2, "now", 0, {"addBatch": 7})])] == [1, 2]
    assert not metrics.expects()


def test_rows_of_files_are_sparks_where_a_filter_comes_first(app: AppHome) -> None:
    metrics = StageMetrics(app, "j", "slicer", counted_by_spark=True)
    metrics.begin()
    counted(app, 0, Counters(rows_in=5, rows_out=4, refused=1))
    (found,) = metrics.take([Progress(0, "now", 99, {"addBatch": 7})])
    counts = found.counters
    assert (counts.rows_in, counts.filtered) == (99, 94)
    assert counts.rows_in == counts.rows_out + counts.filtered + counts.refused


def test_rates_are_of_a_stated_time(app: AppHome, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1_000_000.0]
    monkeypatch.setattr("braid.engine.run_metrics.time.time", lambda: clock[0])
    metrics = begun(app)
    for second in range(200):
        matched = 1 if second < 100 else 0
        left = InputCounters(rows=2, matched=matched, unmatched=1 - matched)
        counted(app, second, Counters(rows_in=2, rows_out=1, inputs={"left": left}))
        metrics.take((), final=True)
        metrics.status()
        clock[0] += 1
    status = metrics.status()
    minute, five, _ = status.recent
    assert 60 <= minute.seconds <= 66
    assert minute.rows_in_per_second == pytest.approx(2, rel=0.05)
    assert minute.rows_out_per_second == pytest.approx(1, rel=0.05)
    assert minute.match_rate == {"left": 0.0}
    assert (five.seconds, five.match_rate, status.match_rate) == (200, {"left": 0.5}, {"left": 0.5})


def test_an_application_may_go_on_with_other_shards(app: AppHome) -> None:
    metrics = begun(app)
    write_json(app.checkpoint("j") / "metadata", {"id": "one"})
    counted(app, 0, Counters(rows_in=3, shard_rows=[1, 2]))
    metrics.take((), final=True)
    counted(app, 1, Counters(rows_in=10, shard_rows=[1, 2, 3, 4]))
    metrics.take((), final=True)
    metrics.save()
    assert begun(app).status().totals.shard_rows == [2, 4, 3, 4]
    assert begun(app).status().run.shard_rows == [0, 0, 0, 0]


def test_several_threads_may_ask_for_the_status(app: AppHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("braid.engine.run_metrics._SAMPLE_SECONDS", 0.0)
    monkeypatch.setattr("braid.engine.run_metrics.MINUTES", (0,))
    metrics = begun(app)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads take turns within any call
    try:
        with ThreadPoolExecutor(4) as threads:
            asked = [threads.submit(lambda: [metrics.status() for _ in range(500)]) for _ in range(4)]
            assert all(len(one.result(timeout=60)) == 500 for one in asked)
    finally:
        sys.setswitchinterval(interval)
