"""What a slicer has read is sliced again by another plan: as by a slicer that begins anew, and it goes on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from braid import api
from braid.core.columns import HASH, TIME
from braid.core.config import AppConfig
from braid.core.errors import RunError
from braid.core.positions import Position
from braid.engine import dead_letters
from braid.engine.inputs import InputLog
from braid.engine.slicing_again import Outcome, Progress
from braid.home.cadence import Cadence
from braid.home.control import SinkStart
from braid.home.lease import take_lease
from braid.home.paths import Home
from braid.log.category import Category
from braid.plan.kinds.slicer import SlicerStage
from braid.spark.checkpoints import Checkpoint, begin_batch, end_batch, read_checkpoint
from braid.spark.sources.read_before import ReadCategory, ReadFiles, read_before
from tests.home.killed import Killed, Mortal

START = 1_700_000_000
MICROS = pa.timestamp("us", tz="UTC")
STORED = pa.schema(
    [
        ("id", pa.int64()),
        ("t", MICROS),
        ("u", MICROS),
        ("k", pa.string()),
        ("m", pa.string()),
        ("v", pa.int32()),
    ]
)
COLUMNS = "id bigint, t timestamp, u timestamp, k string, m string"
VIEW = """
  CREATE INPUT TABLE a (id bigint, t timestamp, k string, v int) FROM SCRIBE("a") TIME t;
  CREATE INPUT TABLE b (id bigint, t timestamp, k string) FROM SCRIBE("b") TIME t;
  CREATE VIEW l AS SELECT a.id AS id, a.t AS t, b.t AS u, a.k AS k, b.k AS m, a.v AS v FROM a
    INNER JOIN b ON a.k = b.k AND b.t BETWEEN a.t - INTERVAL '9 seconds' AND a.t + INTERVAL '9 seconds';
"""


@dataclass(frozen=True)
class Change:
    """What the second program says otherwise than the first one."""

    key: str = "l.k = r.k"
    time: str = "t"
    kind: str = "int"
    where: str = ""


OLD = Change()
CHANGES = {
    "key": Change(key="l.m = r.k"),
    "key of another type": Change(key="l.id = r.id"),
    "event time": Change(time="u"),
    "payload type": Change(kind="double"),
    "all": Change(key="l.id = r.id", time="u", kind="string", where="WHERE l.k <> 'k3'"),
}


def program(change: Change, source: str) -> str:
    """A program whose left input is read from a source."""
    declared = f"CREATE INPUT TABLE l ({COLUMNS}, v {change.kind}) FROM {source} TIME {change.time};"
    at = f"l.{change.time}"
    return f"""
      CREATE APPLICATION app WITH (shards = 2);
      {VIEW if source == "VIEW" else declared}
      CREATE INPUT TABLE r (id bigint, t timestamp, k string) FROM SCRIBE("r") TIME t;
      CREATE VIEW j AS SELECT l.id AS lid, l.v AS v, r.id AS rid FROM l LEFT JOIN r ON {change.key}
        AND r.t BETWEEN {at} - INTERVAL '10 seconds' AND {at} + INTERVAL '10 seconds' {change.where};
      CREATE TABLE out AS SELECT * FROM j STORAGE SCRIBE(category = "out");
    """


def record(number: int) -> dict[str, Any]:
    """A row; some have no event time of one kind or the other."""
    when = [datetime.fromtimestamp(START + number * step, UTC) for step in (1, 2)]
    return {
        "id": number,
        "t": None if number % 7 == 3 else when[0],
        "u": None if number % 11 == 5 else when[1],
        "k": f"k{number % 5}",
        "m": None if number % 13 == 1 else f"m{number % 4}",
        "v": number % 9,
    }


def rows(numbers: range) -> pa.Table:
    return pa.Table.from_pylist([record(number) for number in numbers], schema=STORED)


def lines(numbers: range) -> list[str]:
    """The same as JSON, with a line that is none."""
    return [*(json.dumps(record(number), default=datetime.isoformat) for number in numbers), "{bad"]


Put = Callable[[Home, Path, int, range], None]


def _json(home: Home, folder: Path, name: int, numbers: range) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{name:03d} [x].json").write_text("\n".join(lines(numbers)))


def _csv(home: Home, folder: Path, name: int, numbers: range) -> None:
    folder.mkdir(exist_ok=True)
    texts = [",".join("" if value is None else str(value) for value in record(n).values()) for n in numbers]
    (folder / f"{name:03d}.csv").write_text("\n".join([",".join(STORED.names), *texts, "too,short"]))


def _parquet(home: Home, folder: Path, name: int, numbers: range) -> None:
    folder.mkdir(exist_ok=True)
    pq.write_table(rows(numbers), folder / ".fresh")
    (folder / ".fresh").rename(folder / f"{name:03d} 50%.parquet")


def _days(home: Home, folder: Path, name: int, numbers: range) -> None:
    _json(home, folder, name, range(0))
    (folder / f"day={name}").mkdir()
    (folder / f"{name:03d} [x].json").rename(folder / f"day={name}" / "x.json")
    (folder / f"day={name}" / "x.json").write_text("\n".join(lines(numbers)))


def _typed(home: Home, folder: Path, name: int, numbers: range) -> None:
    home.log().create("l", STORED, shards=1).append(rows(numbers), chunk_rows=4)


def _raw(home: Home, folder: Path, name: int, numbers: range) -> None:
    texts = pa.table({"value": pa.array(lines(numbers))})
    home.log().create("l", None, shards=1, raw=True).append(texts, chunk_rows=4)


def _view(home: Home, folder: Path, name: int, numbers: range) -> None:
    """As the join before would have written it."""
    category = home.log().create("app.l", STORED, shards=1, time_columns=("t", "u"))
    marks = {"t": (START + numbers.stop) * 10**6, "u": (START + 2 * numbers.stop) * 10**6}
    category.append(rows(numbers), chunk_rows=4, watermarks=marks)


SOURCES: dict[str, tuple[str, Put]] = {
    "json": ('FILES("{}", format = "json", maxFilesPerTrigger = "1")', _json),
    "csv": ('FILES("{}", format = "csv")', _csv),
    "days": ('FILES("{}", format = "json")', _days),
    "parquet": ('FILES("{}", format = "parquet")', _parquet),
    "typed": ('SCRIBE("l")', _typed),
    "raw": ('SCRIBE("l")', _raw),
    "view": ("VIEW", _view),
}


@dataclass
class Slicing:
    """The left slicer of an application, run by itself."""

    session: Any
    home: Home
    folder: Path
    source: str
    change: Change = OLD
    told: list[Progress] = field(default_factory=list)

    @property
    def launcher(self) -> Any:
        from braid.spark.launcher import Launcher
        from braid.spark.processes.session import open_session

        plan = api.compile_text(program(self.change, SOURCES[self.source][0].format(self.folder))).plan
        options = AppConfig.model_validate({"shards": 2, "chunk_rows": 8, "batch_rows": 20})
        cadence = self.home.root / "cadence.json"
        Cadence(patience=50_000, look=5_000).write(cadence)
        session = open_session(self.session)
        app = self.home.application("app")
        launcher = Launcher(session, app, plan, options, take_lease(app), str(cadence))
        launcher.prepare()
        return launcher

    def stage(self, launcher: Any) -> SlicerStage:
        [stage] = [stage for stage in launcher.plan.stages if stage.name == "j.left"]
        assert isinstance(stage, SlicerStage)
        return stage

    def put(self, name: int, numbers: range) -> None:
        SOURCES[self.source][1](self.home, self.folder, name, numbers)

    def run(self, *, by_driver: bool = False) -> None:
        """Let the streaming slicer read what is there."""
        launcher = self.launcher
        query = launcher.start(self.stage(launcher), available_now=not by_driver)
        if by_driver:
            query.processAllAvailable()
            query.stop()
        else:
            query.awaitTermination()

    def again(self, change: Change, update: str = "one", since: int | None = None) -> Outcome:
        """Slice again by another program."""
        self.change = change
        outcome = self.call(self.launcher, update, since)
        self.check_resuming()
        return outcome

    def call(self, launcher: Any, update: str = "one", since: int | None = None) -> Outcome:
        from braid.spark.slicing_again import slice_again

        stage = self.stage(launcher)
        return slice_again(launcher, stage, update, since=since, progress=self.told.append)

    def check_resuming(self) -> None:
        from braid.spark.resuming import Resuming

        launcher = self.launcher
        resuming = Resuming(launcher.home, launcher.plan, launcher.options)
        start = SinkStart.read(launcher.home.control_file("j.left", "sink"))
        assert start is not None
        assert resuming.first_commit(self.stage(launcher)) == start.first_commit

    @property
    def category(self) -> Category:
        return self.home.log().open("app.j.left")

    def rows(self) -> Counter[tuple[object, ...]]:
        """All that is in the category, in the order of names."""
        reader = self.category.reader()
        found: Counter[tuple[object, ...]] = Counter()
        for number in range(reader.first, reader.latest() + 1):
            for batch in reader.rows(number):
                assert batch.schema == self.category.schema
                names = sorted(batch.schema.names)
                columns = [batch.column(name).to_pylist() for name in names]
                found.update(zip(*columns, strict=True))
        return found

    def letters(self) -> int:
        reader = dead_letters.create(self.home.log(), "app.dead_letter").reader()
        return sum(reader.commit(number).rows for number in range(reader.latest() + 1))


def anew(slicing: Slicing, files: list[range], tmp_path: Path) -> Slicing:
    """A slicer of the new program that has never run, over the same rows."""
    other = Slicing(
        slicing.session, Home.at(tmp_path / "anew"), slicing.folder, slicing.source, slicing.change
    )
    if not slicing.folder.exists():
        for number, numbers in enumerate(files):
            other.put(number, numbers)
    other.run()
    return other


def check_blocks(category: Category) -> None:
    """Blocks are as the join needs them: by shard, sorted by hash, with times."""
    reader = category.reader()
    for number in range(reader.first, reader.latest() + 1):
        for chunk in reader.commit(number).chunks:
            batch = reader.read(number, chunk.index)
            times = [time for time in batch.column(TIME).to_pylist() if time is not None]
            stats = chunk.times[TIME]
            assert (stats.min, stats.max) == (min(times, default=None), max(times, default=None))
            assert batch.column(HASH).to_pylist() == sorted(batch.column(HASH).to_pylist())
            assert chunk.rows <= 8
            assert len(chunk.blocks) <= category.shards == 2


CASES = [(source, "all") for source in SOURCES] + [
    ("parquet", change) for change in CHANGES if change != "all"
]


@pytest.mark.spark
@pytest.mark.parametrize(("source", "change"), CASES)
def test_it_is_as_if_the_slicer_had_begun_anew(
    spark: Any, home: Home, tmp_path: Path, source: str, change: str
) -> None:
    slicing = Slicing(spark, home, tmp_path / "in", source)
    files = [range(n * 6, n * 6 + 6) for n in range(12 if source == "json" else 5)]
    for number, numbers in enumerate(files[:-1]):
        slicing.put(number, numbers)
    slicing.run()
    letters = slicing.letters()
    outcome = slicing.again(CHANGES[change])
    fresh = anew(slicing, files[:-1], tmp_path)
    assert slicing.rows() == fresh.rows()
    assert outcome.rows == fresh.rows().total() == slicing.told[-1].rows
    assert outcome.gone == 0
    assert slicing.letters() == letters
    assert slicing.category.schema == fresh.category.schema
    check_blocks(slicing.category)
    reader = slicing.category.reader()
    [*_, last] = InputLog(reader).records(Position(-1, -1))
    assert last.position == outcome.position
    if source == "view":
        assert reader.commit(reader.latest()).watermarks == fresh_marks(fresh)
    # The slicer goes on with what it has not read.
    slicing.put(len(files) - 1, files[-1])
    slicing.run()
    if source in ("typed", "raw", "view"):
        fresh.put(len(files) - 1, files[-1])
    fresh.run()
    assert slicing.rows() == fresh.rows()
    assert reader.latest() == outcome.position.commit + 1


def fresh_marks(fresh: Slicing) -> Any:
    reader = fresh.category.reader()
    return reader.commit(reader.latest()).watermarks


@pytest.mark.spark
def test_files_that_the_driver_has_sliced_are_known(spark: Any, home: Home, tmp_path: Path) -> None:
    """Notes are compacted after ten micro-batches, and are the driver's own or Spark's."""
    slicing = Slicing(spark, home, tmp_path / "in", "parquet")
    files = [range(n * 3, n * 3 + 3) for n in range(13)]
    for number, numbers in enumerate(files[:12]):
        slicing.put(number, numbers)
        slicing.run(by_driver=number != 5)
    assert slicing.again(CHANGES["key"]).rows == 36
    slicing.put(12, files[12])
    slicing.run(by_driver=True)
    assert slicing.rows() == anew(slicing, files, tmp_path).rows()


@pytest.mark.spark
@pytest.mark.parametrize("source", ["json", "parquet", "typed", "raw", "view"])
def test_it_is_killed_and_called_again(
    spark: Any, home: Home, tmp_path: Path, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slicing = Slicing(spark, home, tmp_path / "in", source)
    files = [range(n * 12, n * 12 + 12) for n in range(3)]
    for number, numbers in enumerate(files):
        slicing.put(number, numbers)
    slicing.run()
    mortal, kills = Mortal(monkeypatch), 0
    slicing.change = CHANGES["all"]
    for steps in range(100):
        launcher = slicing.launcher
        try:
            with mortal.within(steps):
                outcome = slicing.call(launcher)
            break
        except Killed:
            kills += 1
    assert kills > 3
    slicing.check_resuming()
    assert outcome.rows == slicing.rows().total()
    slicing.put(3, range(36, 40))
    slicing.run()
    assert slicing.again(CHANGES["all"]) == outcome
    assert slicing.rows() == anew(slicing, [*files, range(36, 40)], tmp_path).rows()


@pytest.mark.spark
def test_a_later_update_rows_since_a_time_and_files_that_are_gone(
    spark: Any, home: Home, tmp_path: Path
) -> None:
    slicing = Slicing(spark, home, tmp_path / "in", "json")
    for number in range(3):
        slicing.put(number, range(number * 10, number * 10 + 10))
    slicing.run()
    slicing.again(CHANGES["event time"])
    since = (START + 20) * 10**6
    outcome = slicing.again(CHANGES["key"], "two", since)
    when = sorted(slicing.category.schema.names).index(TIME)
    times = sorted(row[when] for row in slicing.rows())  # type: ignore[type-var]
    expected = [(START + n) * 10**6 for n in range(20, 30) if n % 7 != 3]
    assert times == expected
    assert (outcome.rows, outcome.gone) == (len(expected), 0)
    assert slicing.category.removed_max_time == {TIME: since - 1}
    (slicing.folder / "001 [x].json").unlink()
    assert slicing.again(OLD, "three").gone == 1
    for path in slicing.folder.iterdir():
        path.unlink()
    outcome = slicing.again(CHANGES["key"], "four")
    assert (outcome.rows, outcome.gone, outcome.position.chunk) == (0, 3, -1)
    slicing.put(3, range(5))
    slicing.run()
    assert slicing.rows().total() == 5


@pytest.mark.spark
def test_commits_that_retention_has_removed_are_gone(spark: Any, home: Home, tmp_path: Path) -> None:
    slicing = Slicing(spark, home, tmp_path / "in", "typed")
    for number in range(4):
        slicing.put(number, range(number * 10, number * 10 + 10))
    slicing.run()
    home.log().open("l").retain(2**62, 3)
    outcome = slicing.again(CHANGES["key"])
    assert (outcome.rows, outcome.gone) == (10, 3)
    home.log().open("l").retain(2**62, 4)
    outcome = slicing.again(OLD, "two")
    assert (outcome.rows, outcome.gone) == (0, 4)


@pytest.mark.spark
def test_a_slicer_that_has_never_run(spark: Any, home: Home, tmp_path: Path) -> None:
    slicing = Slicing(spark, home, tmp_path / "in", "raw")
    slicing.put(0, range(5))
    assert slicing.again(CHANGES["key"]) == Outcome(Position(0, -1), 0, 0)
    slicing.run()
    assert slicing.rows().total() == 5


@pytest.mark.spark
def test_a_micro_batch_in_flight_is_refused(spark: Any, home: Home, tmp_path: Path) -> None:
    slicing = Slicing(spark, home, tmp_path / "in", "typed")
    slicing.put(0, range(5))
    slicing.run()
    folder = home.application("app").checkpoint("j.left")
    begin_batch(folder, read_checkpoint(folder).done + 1, 0, '{"next": [1, 0]}')
    with pytest.raises(RunError, match=r"'j\.left' has begun a micro-batch that is not done"):
        slicing.again(CHANGES["key"])


def checkpoint(folder: Path, offset: str) -> Checkpoint:
    begin_batch(folder, 0, 0, offset)
    end_batch(folder, 0)
    return read_checkpoint(folder)


def test_what_was_read_of_a_category_comes_in_parts(home: Home, tmp_path: Path) -> None:
    for number in range(4):
        _typed(home, tmp_path, number, range(10))
    stage = api.compile_text(program(OLD, 'SCRIBE("l")')).plan.stages[0]
    assert isinstance(stage, SlicerStage)
    source = read_before(stage.source, checkpoint(tmp_path / "c", '{"next": [3, 1]}'), home.log(), 9)
    assert isinstance(source, ReadCategory)
    parts = [source.part(Position(0, 0))]
    while parts[-1].end < source.end:
        parts.append(source.part(parts[-1].end))
    ends = [(0, 2), (1, 1), (2, 0), (2, 2), (3, 1)]
    assert [part.end for part in parts] == [Position(*end) for end in ends]
    assert [part.start for part in parts] == [Position(0, 0), *(part.end for part in parts[:-1])]
    home.log().open("l").retain(2**62, 2)
    again = source.part(*(parts[1].start, parts[1].end))
    assert (again.is_left, again.gone) == (False, 1)
    assert [source.part(part.start, part.end).is_left for part in parts] == [False, False, False, True, True]
    assert sum(source.part(part.start, part.end).gone for part in parts) == 2


def test_commits_that_a_restored_category_lacks_are_gone(home: Home, tmp_path: Path) -> None:
    _typed(home, tmp_path, 0, range(10))
    source = ReadCategory(home.log().open("l").reader(), Position(3, 0), 100)
    first = source.part(Position(0, 0))
    assert (first.end, first.is_left, first.gone) == (Position(1, 0), True, 0)
    second = source.part(first.end)
    assert (second.end, second.is_left, second.gone) == (Position(3, 0), False, 2)


def test_what_was_read_of_files_comes_in_parts(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / str(number)).write_text("x" * 10)
    (tmp_path / "3").unlink()
    source = ReadFiles([f"file://{tmp_path}/{number}" for number in range(5)], max_bytes=15)
    first = source.part(Position(0, 0))
    assert (first.files, first.end, first.gone) == (tuple(source.paths[:2]), Position(2, 0), 0)
    second = source.part(first.end)
    assert (second.files, second.end, second.gone) == ((source.paths[2], source.paths[4]), source.end, 1)
    (tmp_path / "0").unlink()
    assert source.part(first.start, first.end).files == (source.paths[1],)


def test_topics_cannot_be_read_again(home: Home, tmp_path: Path) -> None:
    stage = api.compile_text(program(OLD, 'KAFKA("topic", brokers = "b")')).plan.stages[0]
    assert isinstance(stage, SlicerStage)
    with pytest.raises(RunError, match="what was read of kafka 'topic' cannot be read again"):
        read_before(stage.source, checkpoint(tmp_path / "c", "{}"), home.log(), 9)
