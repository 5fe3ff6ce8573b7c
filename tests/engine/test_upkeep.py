"""Upkeep of a home on a real log, between the steps of a join that is killed again and again."""

from __future__ import annotations

import copy
import json
import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from braid import api
from braid.core.columns import HASH, KEY, TIME
from braid.core.config import AppConfig, parse_options
from braid.core.counters import merge
from braid.core.errors import RunError
from braid.core.side import Side
from braid.core.times import SECOND
from braid.engine.admission import AdmissionConfig, Facts
from braid.engine.needs import RunNeeds
from braid.engine.offsets import OperatorOffset
from braid.engine.upkeep import HomeUpkeep, measure, survey, upkeep, upkeep_lock
from braid.engine.upkeep_rules import CategoryKind, CategoryRule
from braid.home.files import write_json
from braid.home.options import write_options
from braid.home.paths import Home
from braid.kernels.join.operator import JoinOperator
from braid.kernels.join.spec import JoinSpec, JoinType, OutputColumn
from braid.log import hash_rows
from braid.log.shared import reader
from braid.plan.serialise import plan_to_json
from braid.testing.runtime import LocalOperator, MemoryCell
from tests.engine.test_drop import started
from tests.engine.test_upkeep_sweep import NOW, leave
from tests.log.samples import rows

START = 1_700_000_000
WINDOW = 20 * SECOND
LATE = 3 * SECOND
PROGRAM = """
CREATE APPLICATION app WITH (chunk_rows = 16, batch_rows = 64);
CREATE INPUT TABLE l (id bigint, k bigint, t timestamp) FROM SCRIBE("l") TIME t;
CREATE INPUT TABLE r (id bigint, k bigint, t timestamp) FROM SCRIBE("r") TIME t;
CREATE VIEW j AS SELECT l.id AS l, r.id AS r FROM l JOIN r ON l.k = r.k
  AND r.t BETWEEN l.t - INTERVAL '20 seconds' AND l.t + INTERVAL '20 seconds';
CREATE TABLE pairs AS SELECT * FROM j STORAGE SCRIBE(category = "pairs");
"""
SCHEMA = pa.schema([(HASH, pa.int64()), (TIME, pa.int64()), (f"{KEY}0", pa.int64()), ("id", pa.int64())])
OUTPUT = (OutputColumn("l", Side.LEFT, "id"), OutputColumn("r", Side.RIGHT, "id"))


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[Home]:
    """A home where waiting for the disk takes no time."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as folder:
        yield Home.at(folder)


@dataclass
class Checkpoint:
    """What Spark keeps of a micro-batch: where it began, and the state that it left."""

    start: OperatorOffset | None
    end: OperatorOffset
    states: list[bytes | None]
    rows: list[tuple[int | None, int | None]]


@dataclass
class Run:
    """The join of a home, second by second, killed at random; each life begins at one of the last steps."""

    home: Home
    join: JoinType
    seed: int
    retention: str
    streams: dict[str, list[tuple[int, int, int]]] = field(default_factory=lambda: {"left": [], "right": []})
    kept: list[Checkpoint] = field(default_factory=list)
    lives: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.plan = api.compile_text(PROGRAM).plan
        self.options: AppConfig = parse_options({**dict(self.plan.options), "retention": self.retention})
        app = self.home.application("app")
        write_json(app.plan_file, plan_to_json(self.plan))
        write_options(app, self.options)
        self.stage = next(stage for stage in self.plan.stages if stage.stateful)
        self.log = self.home.log()
        for category in self.stage.reads().values():
            self.log.create(category, SCHEMA, shards=2)
        self.begin()

    def begin(self) -> None:
        """Start anew from what the checkpoint has, or from one of its earlier micro-batches."""
        reader.cache_clear()  # a new process has nothing mapped
        spec = JoinSpec(self.join, -WINDOW, WINDOW, 1, OUTPUT)
        if self.kept and self.rng.random() < 0.5:
            del self.kept[-self.rng.randint(1, min(8, len(self.kept) - 1) or 1) :]
        ordered = {} if self.join is JoinType.INNER else {"left": LATE, "right": LATE}
        rescued = tuple(side.value for side in spec.rescued) if self.join is JoinType.INNER else ()
        admission = AdmissionConfig(self.stage.reads(), WINDOW, self.options, (), ordered, rescued)
        last = self.kept[-1] if self.kept else None
        self.operator = LocalOperator(
            self.home.log_root,
            admission,
            JoinOperator(spec),
            2,
            offset=None if last is None else last.end,
            states=[] if last is None else [MemoryCell(value) for value in last.states],
        )
        self.home.application("app").checkpoint(self.stage.name).mkdir(parents=True, exist_ok=True)
        self.needs = RunNeeds(self.home.application("app"), self.plan)
        self.lives += 1

    def publish(self, now: int) -> None:
        """A second's worth of rows on either side, most of them a little late."""
        for name, category in self.stage.reads().items():
            size = self.rng.randint(0, 12)
            times = [now * SECOND - self.rng.randint(0, LATE) for _ in range(size)]
            keys = [self.rng.randint(0, 20) for _ in range(size)]
            begin = len(self.streams[name])
            self.streams[name] += [(begin + n, keys[n], times[n]) for n in range(size)]
            ids = list(range(begin, begin + size))
            table = pa.table([hash_rows([pa.array(keys, pa.int64())]), times, keys, ids], schema=SCHEMA)
            self.log.open(category).append(table, chunk_rows=16, wall_time=now * SECOND)

    def step(self, now: int, facts: Facts | None = None) -> bool:
        """One micro-batch, if there is anything to do."""
        before = self.operator.offset
        _, step = self.operator.advance(now * SECOND, facts)
        if step is None:
            return False
        assert self.operator.offset is not None
        found, counted = [], []
        for table, notes in self.operator.results(step).values():
            counted += notes.counts
            found += [] if table is None else list(zip(*table.to_pydict().values(), strict=True))
        states = [cell.value for cell in self.operator.states]
        self.kept.append(Checkpoint(before, self.operator.offset, copy.copy(states), found))
        start = None if before is None else OperatorOffset.to_json(before)
        text = None if start is None else json.dumps(start)
        self.needs.take(self.stage.name, len(self.kept) - 1, text, merge(counted), float(now))
        return True

    def emitted(self) -> Counter[tuple[int | None, int | None]]:
        return Counter(row for checkpoint in self.kept for row in checkpoint.rows)

    def expected(self) -> Counter[tuple[int | None, int | None]]:
        names = ("id", "k", "t")
        left, right = (
            pa.table([list(c) for c in zip(*self.streams[n], strict=True)], names=names) for n in Side
        )
        with duckdb.connect() as connection:
            connection.register("l", left)
            connection.register("r", right)
            query = f"""SELECT l.id, r.id FROM l {self.join.name} JOIN r ON l.k = r.k
              AND r.t BETWEEN l.t - {WINDOW} AND l.t + {WINDOW}"""
            return Counter(connection.execute(query).fetchall())


@pytest.mark.parametrize(
    ("join", "seed", "retention"),
    [
        # Late rows look for partners in the log, which are as old as rows are late and the window is long.
        (JoinType.INNER, 1, "45 seconds"),
        # No row is late, and only what the join itself needs keeps anything in the log.
        (JoinType.LEFT, 2, "0 seconds"),
        (JoinType.LEFT, 3, "0 seconds"),
    ],
)
def test_a_join_with_restarts_and_upkeep_is_whole_and_its_log_bounded(
    in_memory: Home, join: JoinType, seed: int, retention: str
) -> None:
    home = in_memory
    run, seconds = Run(home, join, seed, retention), 110
    clock = [0.0]
    most = 0
    for second in range(seconds):
        now = START + second
        run.publish(now)
        while run.rng.random() < 0.9 and run.step(now):
            pass
        if run.rng.random() < 0.15:
            run.begin()
        if second % 3 == 0:
            if run.rng.random() < 0.8:
                run.needs.write()
            clock[0] = float(now)
            report = upkeep(home, lambda: clock[0], lambda seconds: None)
            assert report.troubles == ()
            assert all(one.trouble is None for one in report.categories)
            most = max(most, *(measure(home, name).commits for name in run.stage.reads().values()))
    while not run.operator.offset.at.drained:
        assert run.step(START + seconds, Facts(draining=True))
    assert run.lives > 7
    assert run.emitted() == run.expected()
    assert most < 90
    for name in run.stage.reads().values():
        size = measure(home, name)
        assert size.files <= 2 * size.commits + 2
        assert run.log.open(name).first > 20


def test_an_application_that_cannot_be_read_keeps_everything(home: Home) -> None:
    """What it needs is not known; what is damaged is named, and the rest of upkeep goes on."""
    run = Run(home, JoinType.LEFT, 1, "0 seconds")
    run.publish(START)
    broken = home.application("broken")
    broken.root.mkdir(parents=True)
    broken.plan_file.write_text("{")
    (home.root / "log" / run.stage.reads()["left"] / "data" / ".tmp-x").write_text("")
    report = upkeep(home, lambda: float(START + 9), lambda seconds: None)
    assert len(report.troubles) == 1
    assert report.troubles[0].startswith("application broken: ")
    assert all(one.before.commits == one.after.commits == 1 for one in report.categories)
    broken.plan_file.unlink()
    assert survey(home).may_retire


def test_one_damaged_category_is_told_and_the_others_are_looked_after(home: Home) -> None:
    log = home.log()
    for name in ("a", "b"):
        category = log.create(name, rows(1).schema, shards=1)
        for wall in range(3):
            category.append(rows(5), wall_time=wall)
    program = api.compile_text("""CREATE APPLICATION app WITH (retention = 0);
      CREATE INPUT TABLE a (id bigint) FROM SCRIBE("a"); CREATE INPUT TABLE b (id bigint) FROM SCRIBE("b");
      CREATE TABLE x AS SELECT * FROM a STORAGE SCRIBE(category = "x");
      CREATE TABLE y AS SELECT * FROM b STORAGE SCRIBE(category = "y");""").plan
    app = home.application("app")
    write_json(app.plan_file, plan_to_json(program))
    needs = RunNeeds(app, program)
    for stage in ("x", "y"):
        app.checkpoint(stage).mkdir(parents=True)
        for batch in range(20):
            needs.take(stage, batch, json.dumps({"next": [3, 0]}), None, 1.0)
    needs.write()
    damaged = home.root / "log" / "a" / "commits" / f"{0:020d}.json"
    damaged.write_text("damaged")
    dry = upkeep(home, lambda: 100.0, lambda seconds: None, dry_run=True)
    by_name = {one.category: one for one in dry.categories}
    assert (by_name["b"].before.commits, by_name["b"].after.commits) == (3, 1)
    assert measure(home, "b").commits == 3
    by_name = {one.category: one for one in upkeep(home, lambda: 100.0, lambda _: None).categories}
    assert str(damaged) in str(by_name["a"].trouble)
    assert by_name["b"].trouble is None
    assert by_name["b"].after == measure(home, "b")
    assert (by_name["b"].after.commits, by_name["b"].after.files) == (1, 4)
    assert by_name["b"].holder is not None
    assert (by_name["b"].holder.query, by_name["b"].holder.commit) == ("y", 2)


def test_one_process_at_a_time_looks_after_a_home(home: Home) -> None:
    with upkeep_lock(home) as alone:
        assert alone
        with pytest.raises(RunError, match="another process is at the upkeep"):
            upkeep(home, lambda: 0.0, lambda seconds: None)
    assert upkeep(home, lambda: 0.0, lambda seconds: None).categories == ()


def test_tables_are_swept_wherever_they_are(home: Home, tmp_path: Path) -> None:
    place = tmp_path / "elsewhere"
    program = f"""
      CREATE APPLICATION app;
      CREATE INPUT TABLE l (id bigint, t timestamp) FROM SCRIBE("l") TIME t;
      CREATE TABLE lake AS SELECT id, t FROM l STORAGE HIVE(table = "lake");
      CREATE TABLE far AS SELECT id, t FROM l STORAGE HIVE(table = "far", path = "{place}");
    """
    started(home, program)
    folders = [home.root / "warehouse" / name for name in ("lake", "of_an_application_that_is_gone")]
    orphans = [leave(folder / "_staging" / "x.tmp", old=True) for folder in (place, *folders)]
    report = upkeep(home, lambda: NOW, lambda _: None)
    assert sorted(report.swept) == sorted(map(str, orphans))
    assert not any(orphan.exists() for orphan in orphans)


def test_old_records_of_tables_are_folded(home: Home) -> None:
    folders = [home.root / "warehouse" / name for name in ("bad", "good")]
    for folder in folders:
        for number in range(500):
            leave(folder / "_commits" / f"s-{number:08d}.json", old=True, text="{}")
    (folders[0] / "_commits" / "s-00000007.json").write_text("cut off")
    report = upkeep(home, lambda: NOW, lambda _: None)
    assert [(Path(one.folder), one.folded) for one in report.tables] == [(folders[0], 0), (folders[1], 400)]
    assert "s-00000007.json: not the record of a commit" in (report.tables[0].trouble or "")
    assert len(list((folders[1] / "_commits").glob("s-*.json"))) == 100


def test_a_category_that_was_dropped_and_made_again_is_another_one(home: Home) -> None:
    """Upkeep of a run goes on for months, and remembers what it has retired."""
    work, log = HomeUpkeep(home), home.log()
    rule = CategoryRule("c", CategoryKind.OUTPUT, 10 * SECOND)

    def fill(commits: int, wall: int) -> None:
        category = log.create("c", rows(1).schema, shards=1)
        for number in range(commits):
            category.append(rows(5, number), wall_time=wall * SECOND)

    fill(20, wall=1)
    assert work.retain(rule, 100.0) == 20
    log.drop("c")
    fill(6, wall=99)
    assert work.clear("c", 200.0) == 0
    assert work.compact(rule, 200.0, 9) == 0
    assert work.sweep("c") == []
    assert measure(home, "c").commits == 6
    assert [sum(part.num_rows for part in log.open("c").reader().rows(n)) for n in range(6)] == [5] * 6


@pytest.mark.parametrize("name", ["plan.json", "options.json", "control/j.needs.json", "control/j.sink.json"])
def test_bytes_that_are_no_text_are_a_trouble_and_no_more(home: Home, name: str) -> None:
    run = Run(home, JoinType.LEFT, 1, "0 seconds")
    run.publish(START)
    path = home.application("app").root / name.replace("/j.", f"/{run.stage.name}.")
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"\xff\xfe")
    (trouble,) = survey(home).troubles
    assert trouble.startswith("application app: ")


def test_files_that_go_while_they_are_measured_are_no_trouble(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    category = home.log().create("c", rows(1).schema, shards=1)
    category.append(rows(5))
    stray = home.root / "log" / "c" / "data" / ".tmp-1"
    stray.write_text("x")
    is_file = Path.is_file

    def gone(path: Path) -> bool:
        found = is_file(path)
        if path == stray:
            stray.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(Path, "is_file", gone)
    assert measure(home, "c").commits == 1
