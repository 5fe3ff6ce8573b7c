"""Which files were read is noted as Spark notes it, however often one starts anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from braid.core.errors import RunError
from braid.spark.sources.seen_files import GONE, INTERVAL, MAX_AGE, SeenFiles, is_hidden

NOW = 1_700_000_000_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "in"
    path.mkdir()
    return path


def put(folder: Path, name: str, at: int = NOW) -> None:
    (folder / name).write_text("x")
    os.utime(folder / name, ns=(at * 1_000_000, at * 1_000_000))


def names(seen: SeenFiles) -> list[str]:
    found = seen.new()
    assert found is not None
    return [file.name for file in found]


def take(seen: SeenFiles) -> None:
    found = seen.new()
    assert found is not None
    seen.add(found)


def test_files_are_seen_once_over_restarts(tmp_path: Path, folder: Path) -> None:
    seen, read = SeenFiles(tmp_path / "notes", folder), []
    for number in range(3 * INTERVAL):
        put(folder, f"{number:03d}", NOW + number)
        before = seen.last
        take(seen)
        read += [file.name for file in seen.between(before, seen.last)]
        if number % 4 == 0:
            seen = SeenFiles(tmp_path / "notes", folder)
        assert seen.last == number
        assert names(seen) == []
    assert read == [f"{number:03d}" for number in range(3 * INTERVAL)]
    kept = sorted(path.name for path in (tmp_path / "notes").iterdir())
    assert kept == sorted(["19.compact", *map(str, range(2 * INTERVAL, 3 * INTERVAL - 1)), "29.compact"])


def test_the_oldest_file_comes_first(tmp_path: Path, folder: Path) -> None:
    for name, at in (("b", NOW), ("a", NOW), ("c", NOW - 5), (".d", NOW), ("_e", NOW), ("_f=1", NOW + 1)):
        put(folder, name, at)
    assert names(SeenFiles(tmp_path / "notes", folder)) == ["c", "a", "b", "_f=1"]


def test_what_only_spark_reads_is_left_to_it(tmp_path: Path, folder: Path) -> None:
    seen = SeenFiles(tmp_path / "notes", folder)
    (folder / "_temporary").mkdir()
    assert seen.new() == []
    (folder / "day=1").mkdir()
    assert seen.new() is None
    (folder / "day=1").rmdir()
    (folder / os.fsdecode(b"\xff")).write_text("x")
    assert seen.new() is None


def test_files_that_are_gone_for_long_are_forgotten(tmp_path: Path, folder: Path) -> None:
    seen = SeenFiles(tmp_path / "notes", folder)
    put(folder, "gone", NOW - GONE - 1)
    put(folder, "still there", NOW - GONE - 1)
    put(folder, "gone lately", NOW)
    take(seen)
    (folder / "gone").unlink()
    (folder / "gone lately").unlink()
    for number in range(INTERVAL - 1):
        put(folder, f"{number}", NOW)
        take(seen)
    again = SeenFiles(tmp_path / "notes", folder)
    put(folder, "gone", NOW)
    put(folder, "gone lately", NOW)
    assert names(again) == names(seen) == ["gone"]


def test_files_that_are_there_are_known_however_old_they_are(tmp_path: Path, folder: Path) -> None:
    seen = SeenFiles(tmp_path / "notes", folder)
    put(folder, "old", NOW - 2 * MAX_AGE)
    take(seen)
    for number in range(INTERVAL):
        put(folder, f"{number}", NOW)
        take(seen)
    known = SeenFiles(tmp_path / "notes", folder).between(-1, seen.last)
    assert [file.name for file in known] == ["old", *(str(number) for number in range(INTERVAL))]


def test_nothing_is_forgotten_while_a_folder_is_empty(tmp_path: Path, folder: Path) -> None:
    seen = SeenFiles(tmp_path / "notes", folder)
    put(folder, "old", NOW - GONE - 1)
    put(folder, "new", NOW)
    take(seen)
    for path in folder.iterdir():
        path.unlink()
    for _ in range(INTERVAL):
        seen.add([])
    put(folder, "old", NOW - GONE - 1)
    assert names(SeenFiles(tmp_path / "notes", folder)) == []


def test_files_older_than_the_latest_by_too_much_are_not_read(tmp_path: Path, folder: Path) -> None:
    seen = SeenFiles(tmp_path / "notes", folder)
    put(folder, "new", NOW)
    take(seen)
    put(folder, "old", NOW - MAX_AGE - 1)
    put(folder, "older", NOW - MAX_AGE)
    assert names(seen) == ["older"]


def test_a_damaged_note_is_named(tmp_path: Path, folder: Path) -> None:
    seen = SeenFiles(tmp_path / "notes", folder)
    put(folder, "a")
    take(seen)
    (tmp_path / "notes" / "0").write_text("v1\n{")
    with pytest.raises(RunError, match="notes/0: the file of the checkpoint is damaged"):
        SeenFiles(tmp_path / "notes", folder)
    (tmp_path / "notes" / "0").write_text("")
    with pytest.raises(RunError, match="notes/0: the file of the checkpoint is damaged"):
        SeenFiles(tmp_path / "notes", folder)


def test_a_missing_note_is_named(tmp_path: Path, folder: Path) -> None:
    seen = SeenFiles(tmp_path / "notes", folder)
    for number in range(INTERVAL + 4):
        put(folder, str(number), NOW + number)
        take(seen)
    (tmp_path / "notes" / str(INTERVAL + 1)).unlink()
    with pytest.raises(RunError, match=f"notes/{INTERVAL + 1}: the file of the checkpoint is missing"):
        SeenFiles(tmp_path / "notes", folder)
    with pytest.raises(RunError, match=f"notes/{INTERVAL + 4}: the file of the checkpoint is missing"):
        seen.check(INTERVAL + 4)


@pytest.mark.parametrize(
    ("name", "hidden"), [(".a", 1), ("_a", 1), ("_metadata", 1), ("_a=1", 0), ("a._COPYING_", 1), ("a", 0)]
)
def test_hidden_files(name: str, hidden: int) -> None:
    assert is_hidden(name) == bool(hidden)
