"""Small files are sliced by the driver itself, from Spark's checkpoint: every file once, whoever reads it."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

from braid import api
from braid.core.columns import HASH, TIME
from braid.core.errors import RunError
from braid.core.times import now_micros
from braid.engine import dead_letters
from braid.home.cadence import Cadence
from braid.home.files import write_text
from braid.home.paths import Home
from braid.plan.kinds.slicer import SlicerStage
from braid.spark import checkpoints, driver_slicer
from braid.spark.driver_slicer import DriverSlicer, StartSpark, is_plain_folder
from braid.spark.sinks.blocks import BlocksConfig, BlockWriter
from braid.spark.slicers.arrow_files import ArrowSlicer
from braid.spark.sources import seen_files
from braid.spark.sources.seen_files import SeenFiles

MICROS = pa.timestamp("us", tz="UTC")
STORED = pa.schema([("id", pa.int64()), ("t", MICROS), ("k", pa.string())])
TARGET = pa.schema(
    [("id", pa.int64()), ("k", pa.string()), ("__key0", pa.string()), (HASH, pa.int64()), (TIME, pa.int64())]
)
BEGAN = now_micros()
ODD = ("plain", "a b", "50%", "x=1+2", "ü", "#1", "~$", "q'\"", "\u200c")
"""Names that are escaped, each in its own way."""
PATTERNS = ("?", "[0]", "{x}", "*")
"""Names that Spark would take for patterns."""


def program(folder: Path, options: str = "") -> str:
    return f"""
      CREATE APPLICATION filed WITH (shards = 2{options});
      CREATE INPUT TABLE l (id bigint, t timestamp, k string)
        FROM FILES("{folder}/l", format = "parquet") TIME t;
      CREATE INPUT TABLE r (id bigint, t timestamp, k string)
        FROM FILES("{folder}/r", format = "parquet") TIME t;
      CREATE VIEW j AS SELECT l.id AS id, r.id AS rid FROM l INNER JOIN r ON l.k = r.k
        AND r.t BETWEEN l.t - INTERVAL '5 minutes' AND l.t + INTERVAL '5 minutes';
      CREATE TABLE out AS SELECT * FROM j STORAGE SCRIBE(category = "out");
    """


def put(folder: Path, name: str, number: int) -> None:
    """A file with one row."""
    folder.mkdir(parents=True, exist_ok=True)
    times = pa.array([BEGAN + number], MICROS)
    pq.write_table(pa.table({"id": [number], "t": times, "k": [str(number)]}), folder / ".written")
    (folder / ".written").rename(folder / f"{name}.parquet")


class Crash(BaseException):
    """The process ends here."""


class Slicing:
    """A slicer of the driver, without an application."""

    def __init__(self, home: Home, folder: Path) -> None:
        self.home = home
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.checkpoint = home.root / "checkpoint"
        self.category = home.log().create("sliced", TARGET, shards=2, time_columns=(TIME,))
        dead_letters.create(home.log(), "letters")
        stage = api.compile_text(program(folder)).plan.stages[0]
        assert isinstance(stage, SlicerStage)
        slicer = ArrowSlicer.plan(stage, STORED, TARGET, max_future=10**15)
        assert slicer is not None
        self.config = BlocksConfig(
            root=home.log_root,
            stage="s",
            dead_letter="letters",
            first_commit=0,
            metrics=str(home.root / "counts"),
            category="sliced",
            chunk_rows=100,
            slicer=slicer.to_dict(),
        )
        self.cadence = home.root / "cadence.json"
        Cadence(patience=50_000, look=5_000).write(self.cadence)

    def start(self, by_spark: StartSpark | None = None) -> DriverSlicer:
        return DriverSlicer(
            str(self.folder), self.checkpoint, self.config, str(self.cadence), by_spark or _no_spark
        )

    def run(self) -> None:
        """Slice what is there, and end."""
        query = self.start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    def ids(self) -> list[int]:
        """What is in the log, in order."""
        reader = self.category.reader()
        found = [
            value
            for number in range(reader.latest() + 1)
            for batch in reader.rows(number, ["id"])
            for value in batch["id"].to_pylist()
        ]
        return sorted(found)


def _no_spark(*, available_now: bool) -> NoReturn:
    raise AssertionError("Spark is not needed")


@pytest.fixture
def slicing(home: Home, tmp_path: Path) -> Slicing:
    return Slicing(home, tmp_path / "in")


def test_files_are_sliced_as_they_come(slicing: Slicing) -> None:
    query = slicing.start()
    try:
        for number, name in enumerate((*ODD, *PATTERNS)):
            put(slicing.folder, name, number)
            query.processAllAvailable()
            assert slicing.ids() == list(range(number + 1))
        assert query.isActive
        assert query.exception() is None
        assert [one["batchId"] for one in query.recentProgress] == list(range(len(ODD) + len(PATTERNS)))
        assert query.lastProgress is not None
        assert "addBatch" in query.lastProgress["durationMs"]
    finally:
        query.stop()
    assert not query.isActive


def test_an_error_is_told_as_spark_tells_it(slicing: Slicing) -> None:
    (slicing.folder / "bad.parquet").write_text("PAR1 nothing")
    query = slicing.start()
    with pytest.raises(PySparkException, match=r"braid\.core\.errors\.LogError: .*bad\.parquet"):
        query.processAllAvailable()
    query.stop()
    assert query.exception() is not None
    # It is tried again, with the same files, until somebody mends it.
    put(slicing.folder, "bad", 7)
    slicing.run()
    assert slicing.ids() == [7]


def steps(monkeypatch: pytest.MonkeyPatch, crash_at: int) -> Iterator[int]:
    """Count durable steps, and end the process at one of them: before it, or after it."""
    count = itertools.count()

    def interrupted(step: Callable[..., object]) -> Callable[..., object]:
        def run(*arguments: object, **named: object) -> object:
            if next(count) == crash_at:
                raise Crash
            result = step(*arguments, **named)
            if next(count) == crash_at:
                raise Crash
            return result

        return run

    monkeypatch.setattr(checkpoints, "write_text", interrupted(write_text))
    monkeypatch.setattr(seen_files, "write_text", interrupted(write_text))
    monkeypatch.setattr(BlockWriter, "commit", interrupted(BlockWriter.commit))
    return count


def test_a_crash_at_any_step_loses_and_repeats_nothing(home: Home, tmp_path: Path) -> None:
    reached, crashes = 0, 0
    for crash_at in itertools.count():
        slicing = Slicing(Home.at(home.root / str(crash_at)), tmp_path / f"in{crash_at}")
        with pytest.MonkeyPatch.context() as patch:
            count = steps(patch, crash_at)
            for number in range(12):
                put(slicing.folder, f"{number}", number)
                with contextlib.suppress(PySparkException):  # by which a crash is told
                    slicing.run()
            reached = next(count)
        slicing.run()
        crashes += reached > crash_at
        assert slicing.ids() == list(range(12)), crash_at
        if reached <= crash_at:
            break
    assert crashes > 80


def test_a_backlog_and_folders_are_left_to_spark(slicing: Slicing, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*, available_now: bool) -> NoReturn:
        raise PySparkException(f"Spark was asked, {available_now=}")

    put(slicing.folder, "a", 1)
    (slicing.folder / "day=1").mkdir()
    query = slicing.start(refuse)
    with pytest.raises(PySparkException, match="Spark was asked, available_now=False"):
        query.processAllAvailable()
    (slicing.folder / "day=1").rmdir()
    monkeypatch.setattr(driver_slicer, "MOST_BYTES", 10)
    query = slicing.start(refuse)
    with pytest.raises(PySparkException, match="Spark was asked, available_now=True"):
        query.awaitTermination()


def test_a_folder_that_is_not_there_is_waited_for(slicing: Slicing) -> None:
    put(slicing.folder, "a", 0)
    query = slicing.start()
    query.processAllAvailable()
    slicing.folder.rename(slicing.folder.with_name("away"))
    query.processAllAvailable()
    slicing.folder.with_name("away").rename(slicing.folder)
    put(slicing.folder, "b", 1)
    query.processAllAvailable()
    query.stop()
    assert slicing.ids() == [0, 1]


def test_plain_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "file").write_text("")
    monkeypatch.chdir(tmp_path)
    assert is_plain_folder(f"{tmp_path}/a b")
    assert is_plain_folder(f"{tmp_path}/a b/")
    assert is_plain_folder("a b")
    (tmp_path / "deep" / "day=1").mkdir(parents=True)
    for other in (
        "deep",
        "a*",
        "./a b",
        "a b/../a b",
        f"file:{tmp_path}/a b",
        "file",
        "missing",
        f"{tmp_path}//a b",
    ):
        assert not is_plain_folder(other)


@pytest.mark.spark
def test_spark_and_the_driver_go_on_from_each_other(
    spark: object, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = tmp_path / "in put"
    plan = api.compile_text(program(inputs)).plan
    by_driver: Counter[str] = Counter()
    slice_files = DriverSlicer._slice
    files = 0

    def count(self: DriverSlicer, clock: int, last: int, started: float) -> None:
        by_driver[self._checkpoint.name] += 1
        slice_files(self, clock, last, started)

    monkeypatch.setattr(DriverSlicer, "_slice", count)

    def more(prefix: str) -> None:
        nonlocal files
        for name in ODD:
            for side in ("l", "r"):
                put(inputs / side, f"{prefix} {name}", files)
            files += 1

    def check() -> None:
        got = api.read("out", home.root)
        assert sorted(got["id"].to_pylist()) == list(range(files))
        assert got["id"].to_pylist() == got["rid"].to_pylist()

    def drain() -> None:
        api.run(plan, home.root, spark=spark, drain=True).wait()

    more("first")
    drain()
    check()
    assert not by_driver
    for turn in range(3):
        with api.run(plan, home.root, spark=spark) as running:
            # So many notes that one of them has all files.
            for number in range(5):
                more(f"live {turn} {number}")
                running.process_available()
            check()
            if turn == 1:
                before = by_driver.total()
                with monkeypatch.context() as patch:
                    patch.setattr(driver_slicer, "MOST_BYTES", 10)
                    more("backlog")
                    running.process_available()
                check()
                assert by_driver.total() == before
        more(f"drained {turn}")
        drain()
        check()
    with api.run(plan, home.root, spark=spark) as running:
        # From now on it is for Spark.
        (inputs / "l" / "more").mkdir()
        more("beside")
        running.process_available()
        check()
        more("after")
        running.process_available()
    check()
    assert by_driver["j.left"] >= 15
    assert by_driver["j.right"] >= 15
    (status,) = api.status(home.root)
    assert [status.stages[f"j.{side}"].totals.files_in for side in ("left", "right")] == [files, files]


@pytest.mark.spark
def test_a_damaged_file_at_the_start_is_named(spark: object, home: Home, tmp_path: Path) -> None:
    for side in ("l", "r"):
        put(tmp_path / side, "good", 0)
    (tmp_path / "l" / "bad.parquet").write_text("PAR1")
    with pytest.raises(RunError, match=r"cannot read parquet files: .*bad\.parquet") as raised:
        api.run(api.compile_text(program(tmp_path)).plan, home.root, spark=spark)
    assert "\n\tat " not in str(raised.value)


def test_whatever_ends_the_thread_is_told(slicing: Slicing, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(self: DriverSlicer) -> NoReturn:
        raise SystemExit("enough")

    monkeypatch.setattr(DriverSlicer, "_turn", end)
    query = slicing.start()
    with pytest.raises(PySparkException, match="SystemExit: enough"):
        query.processAllAvailable()
    assert not query.isActive
    assert query.exception() is not None


def test_an_empty_file_is_read_when_it_has_been_written(slicing: Slicing) -> None:
    (slicing.folder / "a.parquet").touch()
    (slicing.folder / "_metadata").write_text("not for us")
    slicing.run()
    assert slicing.ids() == []
    put(slicing.folder, "a", 3)
    slicing.run()
    assert slicing.ids() == [3]


def test_lost_notes_are_named(slicing: Slicing) -> None:
    for number in range(3):
        put(slicing.folder, str(number), number)
        slicing.run()
    notes = slicing.checkpoint / "sources" / "0"
    (notes / "2").rename(slicing.folder.parent / "kept")
    put(slicing.folder, "more", 3)
    with pytest.raises(PySparkException, match="sources/0/2: the file of the checkpoint is missing"):
        slicing.start().processAllAvailable()
    (slicing.folder.parent / "kept").rename(notes / "2")
    slicing.run()
    assert slicing.ids() == [0, 1, 2, 3]


def test_a_stop_does_not_slice_what_spark_has_left(slicing: Slicing, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted:
        """Spark, stopped within a micro-batch."""

        recentProgress: ClassVar[list[object]] = []  # noqa: N815  Spark's name
        lastProgress = None  # noqa: N815  Spark's name

        def __init__(self) -> None:
            self.stopped = threading.Event()

        def awaitTermination(self) -> None:  # noqa: N802  Spark's name
            assert self.stopped.wait(60)
            seen = SeenFiles(slicing.checkpoint / "sources" / "0", slicing.folder)
            found = seen.new()
            assert found
            seen.add(found)
            checkpoints.begin_batch(slicing.checkpoint, 0, 1, '{"logOffset":0}')

        def stop(self) -> None:
            self.stopped.set()

    started = threading.Event()

    def by_spark(*, available_now: bool) -> Interrupted:
        started.set()
        return Interrupted()

    monkeypatch.setattr(driver_slicer, "MOST_BYTES", 10)
    put(slicing.folder, "a", 1)
    query = slicing.start(by_spark)  # type: ignore[arg-type]
    assert started.wait(60)
    query.stop()
    assert query.exception() is None
    assert slicing.ids() == []
    monkeypatch.undo()
    slicing.run()
    assert slicing.ids() == [1]
