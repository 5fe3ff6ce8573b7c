from __future__ import annotations

import inspect
import multiprocessing
import os
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import braid
from braid.core.errors import BraidError, CorruptError, LogError
from braid.log import Log, Reader, durable, write_file
from braid.log.layout import commit_path, data_path
from tests.log import crashing, racing
from tests.log.samples import Counting, everything, multiset, rows, typed


def test_a_writer_killed_at_any_step_leaves_all_published_commits_and_no_half_ones(memory_path):
    functions = [f.__name__ for f in vars(durable).values() if inspect.isfunction(f)]
    assert sorted(functions) == sorted(crashing.STEPS)
    repository = Path(braid.__file__).parent.parent
    subprocess.run(
        [sys.executable, "-m", "tests.log.crashing", str(memory_path)],
        check=True,
        cwd=repository,
        timeout=120,
    )
    check_interrupted_compaction(memory_path)
    runs = sorted(memory_path.glob("work-*"))
    assert len(runs) > 45
    for folder in runs:
        promised = (folder / "acknowledged").read_text().split("\n")[:-1]
        check_after_crash(Log(folder / "log"), promised)
        crashing.work(folder / "log", promised.append)
        category = Log(folder / "log").open("c")
        category.sweep(-60)
        check_after_crash(Log(folder / "log"), promised)
        files = {f.path for f in category.storage.files()}
        live = [category.reader().commit(n) for n in (1, 2)]
        assert files == {
            "category.json",
            ".lock",
            *(commit_path(commit.id) for commit in live),
            *(data_path(file) for commit in live for file in commit.files),
        }


def check_interrupted_compaction(runs: Path) -> None:
    compacting = sorted(runs.glob("compacting-*"))
    assert len(compacting) > 80
    for folder in compacting:
        promised = (folder / "acknowledged").read_text().split("\n")[:-1]
        check_after_compacting(Log(folder / "log"), promised)
        crashing.compacting(folder / "log", promised.append)
        category = Log(folder / "log").open("c")
        category.sweep(-60)
        check_after_compacting(Log(folder / "log"), promised)
        assert {f.path for f in category.storage.files()} == {"category.json", ".lock", commit_path(4)}


def check_after_compacting(log: Log, promised: list[str]) -> None:
    if log.categories() == []:
        assert promised == []
        return
    category = log.open("c")
    reader = category.reader()
    last = reader.latest()
    done = len({what for what in promised if what.startswith("commit")})
    assert done - 1 <= last <= done
    assert category.first in ((4,) if done == 5 else (0, 4) if done == 4 else (0,))
    for number in range(category.first, min(last, 3) + 1):
        found = pa.Table.from_batches(reader.rows(number))
        assert multiset(found) == multiset(crashing.table(number))
    assert [category.publish(number, []) for number in range(last + 1)] == [False] * (last + 1)


def check_after_crash(log: Log, promised: list[str]) -> None:
    if "created" not in promised and log.categories() == []:
        return
    category = log.open("c")
    reader = category.reader()
    last = reader.latest()
    done = sum(what.startswith("commit") for what in set(promised))
    assert done - 1 <= last <= done
    assert category.first in ((1,) if "retained" in promised else (0, 1) if "commit 2" in promised else (0,))
    if "evolved" in promised:
        assert category.schema == crashing.WIDER
    for number in range(category.first, last + 1):
        found = pa.Table.from_batches(reader.rows(number, columns=crashing.SCHEMA.names))
        assert multiset(found) == multiset(crashing.table(number))


def touch_all(reader: Reader) -> None:
    """Read everything that there is to read, and look everything up."""
    table = everything(reader)
    until = (reader.latest(), 9)
    hashes = np.sort(table["__hash"].to_numpy())
    reader.find(until, hashes, np.zeros_like(hashes), np.full_like(hashes, 10**9))
    reader.overlapping("__time", until, 0, 10**9)


def test_every_flipped_byte_is_noticed(memory_path):
    log = Log(memory_path / "log")
    category = typed(log)
    for seed in range(3):
        category.append(rows(400, seed), chunk_rows=150, wall_time=0)
        if seed == 1:
            category.compact(crashing.EAGER, now=1)
    files = sorted(p for p in (memory_path / "log").rglob("*") if p.is_file() and p.name != ".lock")
    sizes = np.array([p.stat().st_size for p in files])
    rng = np.random.default_rng(7)
    noticed: dict[str, int] = {}
    for _ in range(1000):
        path = files[rng.choice(len(files), p=sizes / sizes.sum())]
        place, flip = int(rng.integers(path.stat().st_size)), int(rng.integers(1, 256))
        with path.open("r+b") as file:
            file.seek(place)
            byte = file.read(1)[0]
            file.seek(place)
            file.write(bytes([byte ^ flip]))
            file.flush()
            with pytest.raises(CorruptError) as caught:
                touch_all(log.open("app.left").reader())
            assert path.name in str(caught.value)
            noticed[path.parent.name] = noticed.get(path.parent.name, 0) + 1
            file.seek(place)
            file.write(bytes([byte]))
    assert sum(noticed.values()) == 1000
    assert set(noticed) == {"app.left", "commits", "data", "segments"}
    assert everything(log.open("app.left").reader()).num_rows == 1200


def test_of_two_racing_writers_one_wins_each_time(memory_path):
    rounds = 500
    category = Log(memory_path / "log").create("c", raw=True)
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(2, timeout=60)
    won = [spawn.Array("b", rounds) for _ in range(2)]
    arguments = [(str(memory_path / "log"), who, rounds, barrier, won[who]) for who in range(2)]
    racers = [spawn.Process(target=racing.race, args=each) for each in arguments]
    for racer in racers:
        racer.start()
    try:
        for racer in racers:
            racer.join(100)
        assert [racer.exitcode for racer in racers] == [0, 0]
    finally:
        for racer in racers:
            racer.kill()
    assert [a + b for a, b in zip(*won, strict=True)] == [1] * rounds
    reader = category.reader()
    assert [won[reader.commit(n).watermarks["who"]][n] for n in range(rounds)] == [1] * rounds


@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize("damage", ["truncated", "empty", "missing"])
@pytest.mark.parametrize("what", ["data", "commit", "category"])
def test_damaged_files_are_named(tmp_path, what, damage, remote):
    log = Log("log", Counting(str(tmp_path)).filesystem()) if remote else Log(tmp_path / "log")
    category = typed(log)
    category.append(rows(100))
    folder = tmp_path / "log" / "app.left"
    data = data_path(next(iter(category.reader().commit(0).files)))
    path = folder / {"data": data, "commit": commit_path(0), "category": "category.json"}[what]
    reader = category.reader()
    if damage == "missing":
        path.unlink()
    else:
        os.truncate(path, 0 if damage == "empty" else path.stat().st_size // 2)
    with pytest.raises(BraidError) as caught:
        log.open("app.left") if what == "category" else reader.read(0, 0)
    named = folder.name if (what, damage) == ("category", "missing") else path.name
    assert named in str(caught.value)
    assert isinstance(caught.value, LogError if damage == "missing" else CorruptError)


def test_a_commit_record_under_another_number_is_noticed(category):
    category.append(rows(1))
    folder = Path(category.storage.root)
    shutil.copy(folder / commit_path(0), folder / commit_path(1))
    with pytest.raises(CorruptError, match=r"0001\.json: the record is that of commit 0, not 1"):
        category.reader().commit(1)


def test_a_full_device_is_named_and_leaves_no_file(category, monkeypatch):
    """`/dev/full` answers every write as a full disk does."""
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=1))
    name = f"t-{uuid.UUID(int=1).hex[:12]}.arrow"
    path = Path(category.storage.full(data_path(name)))
    path.symlink_to("/dev/full")
    with pytest.raises(LogError, match=rf"{name}: cannot write: No space left on device\n.*free some space"):
        write_file(category, "t", rows(100).to_batches())
    assert not path.is_symlink()


def test_a_full_disk_is_named_and_what_was_published_stays(small_disk):
    log = Log(small_disk)
    category = typed(log)
    category.append(rows(100))
    with pytest.raises(LogError, match=r"append-\w+\.arrow: cannot write: No space left on device"):
        category.append(rows(200_000))
    entry = write_file(category, "t", rows(100, seed=1).to_batches())
    filler = small_disk / "filler"
    filler.write_bytes(bytes(shutil.disk_usage(small_disk).free))
    with pytest.raises(LogError, match=r"0001\.json: cannot publish: No space left on device"):
        category.publish(1, [entry])
    assert multiset(everything(log.open("app.left").reader())) == multiset(rows(100))
    filler.unlink()
    assert category.publish(1, [entry])
    assert everything(category.reader()).num_rows == 200
    assert [f.path for f in category.storage.files() if ".tmp-" in f.path] == []
