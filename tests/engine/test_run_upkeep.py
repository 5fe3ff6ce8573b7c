"""Upkeep inside a run: when it is due, what it does then, and that no trouble ends the run."""

from __future__ import annotations

import shutil
import threading
from collections import namedtuple

import pytest

from braid import api
from braid.core.config import parse_options
from braid.core.times import SECOND
from braid.engine import run_upkeep
from braid.engine.needs import RunNeeds
from braid.engine.run_upkeep import RunUpkeep, interval
from braid.engine.upkeep import LAG, upkeep_lock
from braid.home.files import write_json
from braid.home.paths import Home
from braid.home.table_commits import TableCommits
from braid.plan.serialise import plan_to_json
from tests.engine.test_drop import READER
from tests.log.samples import everything, multiset, rows

NOW = 1_700_000_000.0


class Events:
    """A log that remembers."""

    def __init__(self) -> None:
        self.events: list[dict[str, object]] = []

    def warning(self, event: str, **values: object) -> None:
        self.events.append({"event": event, **values})


class Loop:
    """Upkeep of a home with one application that has read twenty commits of a category."""

    def __init__(self, home: Home, **options: object) -> None:
        self.home = home
        self.at = 0.0
        self.log = Events()
        category = home.log().create("once", rows(1).schema, shards=1)
        for number in range(20):
            category.append(rows(2), wall_time=round((NOW + number) * SECOND))
        plan = api.compile_text(READER).plan
        app = home.application("reader")
        write_json(app.plan_file, plan_to_json(plan))
        app.checkpoint("copy").mkdir(parents=True)
        self.needs = RunNeeds(app, plan)
        self.upkeep = RunUpkeep(
            app,
            parse_options(options),
            self.needs,
            self.log,  # type: ignore[arg-type]
            threading.Event(),
            clock=lambda: NOW + self.at,
            timer=lambda: self.at,
        )
        write_json(app.options_file, parse_options(options).model_dump(mode="json"))

    def read(self, batch: int, commit: int) -> None:
        self.needs.take("copy", batch, f'{{"next": [{commit}, 0]}}', None, NOW + self.at)

    def turn(self, at: float) -> tuple[int, int]:
        """A turn at a time; the oldest commit after it, and how many records of commits there are."""
        self.at = at
        self.upkeep.turn()
        commits = self.home.root / "log" / "once" / "commits"
        return self.home.log().open("once").first, len(list(commits.glob("*.json")))


@pytest.mark.parametrize(
    ("options", "seconds"),
    [({}, 60), ({"retention": "1 minute"}, 6), ({"output_retention": 0}, 1), ({"retention": "forever"}, 60)],
)
def test_the_interval_follows_from_what_is_kept(options: dict[str, object], seconds: float) -> None:
    assert interval(parse_options(options)) == seconds


def test_old_commits_go_when_they_have_been_read_and_files_a_while_later(home: Home) -> None:
    loop = Loop(home, retention="10 seconds")
    assert loop.turn(25.0) == (0, 20)  # never read
    for batch in range(20):
        loop.read(batch, 9)
    assert loop.turn(25.5) == (0, 20)  # not due yet
    assert loop.turn(26.5) == (8, 20)
    assert loop.turn(26.5 + LAG / 2) == (8, 20)
    assert loop.turn(27.0 + LAG) == (8, 12)
    for batch in range(20, 40):
        loop.read(batch, 20)
    assert loop.turn(39.5) == (19, 12)
    assert loop.turn(60.0) == (19, 1)
    assert loop.log.events == []


def test_a_trouble_is_told_once_and_tried_again(home: Home) -> None:
    loop = Loop(home, retention="10 seconds")
    broken = home.application("broken")
    broken.root.mkdir()
    broken.plan_file.write_text("{")
    for at in (30.0, 32.0, 34.0):
        loop.turn(at)
    assert len(loop.upkeep.troubles) == 1
    assert [event["event"] for event in loop.log.events] == ["upkeep"]
    broken.plan_file.unlink()
    loop.turn(36.0)
    assert loop.upkeep.troubles == ()


def test_applications_of_one_home_share_the_work(home: Home) -> None:
    loop = Loop(home, retention="1 second")
    for batch in range(20):
        loop.read(batch, 9)
    with upkeep_lock(home):
        assert loop.turn(30.0) == (0, 20)
    assert loop.turn(32.0)[0] == 8


def test_little_space_does_not_wait(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop(home, retention="10 minutes", output_retention="10 minutes")
    usage = namedtuple("usage", "free")
    for batch in range(20):
        loop.read(batch, 9)
    loop.turn(700.0)
    assert loop.turn(720.0) == (8, 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(run_upkeep.LOW - 1))
    assert loop.turn(731.0) == (8, 12)


def test_records_of_tables_are_folded_in_every_round(home: Home) -> None:
    loop = Loop(home)
    table = home.root / "warehouse" / "lake"
    for number in range(250):
        TableCommits(table).publish("s", number, {})
    loop.turn(61.0)
    assert TableCommits(table).recorded() == {"s": list(range(150, 250))}
    (table / "_commits" / "folded.json").write_text("cut off")
    for number in range(250, 400):
        (table / "_commits" / f"s-{number:08d}.json").write_text("{}")
    loop.turn(122.0)
    assert [trouble.split(":")[0] for trouble in loop.upkeep.troubles] == [f"table {table}"]


def test_small_commits_become_segments_and_their_rows_stay(home: Home) -> None:
    loop = Loop(home, retention="1 hour")
    category = home.log().open("once")
    for start, at in ((20, 70.0), (60, 140.0)):
        for number in range(start, start + 40):
            category.append(rows(2, seed=number), wall_time=round((NOW + number) * SECOND))
        before = multiset(everything(category.reader()))
        # The newest eight commits keep files of their own.
        assert loop.turn(at) == (0, 8)
        compacted = home.log().open("once")
        assert compacted.settings.segments
        assert compacted.settings.covered == start + 40 - 8 - 1
        assert multiset(everything(compacted.reader())) == before
    assert loop.upkeep.troubles == ()
    assert loop.log.events == []
