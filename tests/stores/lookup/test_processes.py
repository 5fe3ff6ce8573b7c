"""Readers beside a writer in another process, writers that are killed, and files that are damaged."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import braid
from braid.core.errors import CorruptError, StoreError
from braid.stores.lookup import LookupStore
from braid.stores.lookup.settings import FILE, Settings
from tests.stores.lookup.samples import create, every, ids, scores, users
from tests.stores.lookup.writing import KEYS, STEPS, write


@contextmanager
def start(what: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A writer, which is killed if it has not ended."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.stores.lookup.writing", what, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(braid.__file__).parent.parent,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_reader_sees_what_a_writer_in_another_process_has_written(home):
    create(home).close()
    reader = LookupStore(home).open("users")
    with start("serve", home) as writer:
        for number in range(5):
            print(number, file=writer.stdin, flush=True)
            assert writer.stdout.readline() == f"{number}\n"
            assert scores(reader.get(ids(0, KEYS - 1, KEYS), 0)) == [number, number, None]
        with pytest.raises(StoreError, match="another process"):
            write(home, 9)
        writer.send_signal(signal.SIGKILL)
    write(home, 9)
    assert scores(reader.get(ids(0), 0)) == [9]


def test_a_reader_never_sees_a_part_of_a_batch(home):
    """While files are written, merged and removed, and the writer comes and goes."""
    create(home).close()
    write(home, 0)
    batches = 120
    reader = LookupStore(home).open("users")
    seen: tuple[list[int], list[int]] = ([], [])
    with start("write", home, batches) as writer:
        while writer.poll() is None:
            # One reader follows; a new one opens the files at any moment, and may be a batch ahead of it.
            for table, numbers in zip((reader, LookupStore(home).open("users")), seen, strict=True):
                found = set(scores(table.get(every(KEYS), 0)))
                assert len(found) == 1
                numbers += found
    assert writer.returncode == 0
    assert all(numbers == sorted(numbers) for numbers in seen)
    assert set(scores(reader.get(every(KEYS), 0))) == {batches - 1}


def test_a_killed_writer_leaves_whole_batches(home):
    with start("crash", home) as writer:
        assert writer.wait(100) == 0
    for step in STEPS:
        last = 1 if step in ("begin", "stored") else 2
        with LookupStore(home / step).open("users") as table:
            assert set(scores(table.get(every(KEYS), 0))) == {last}, step
            assert table.writer().last_batch("w") == last
            assert table.settings.version == 2 + last
            rows = users(list(range(KEYS)), 2)
            replay = table.upsert(rows, writer="w", batch_id=2, now_us=0)
            assert replay.applied == (last == 1)
            assert set(scores(table.get(every(KEYS), 0))) == {2}


@pytest.fixture
def damaged(home):
    """A table of three files; returns its data folder."""
    create(home).close()
    with LookupStore(home).open("users") as table:
        for number in range(3):
            some = list(range(number * KEYS, (number + 1) * KEYS))
            table.upsert(users(some, number), writer="w", batch_id=number, now_us=0)
        return table.folder / table.settings.data


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.sst"), key=lambda path: path.stat().st_size)


@pytest.mark.parametrize("how", ["flip", "cut", "remove", "cut manifest", "flip manifest", "remove all"])
def test_damage_is_never_taken_for_a_missing_row(home, damaged, how):
    largest = files(damaged)[-1]
    manifest = max(damaged.glob("MANIFEST-*"))
    match how:
        case "flip":
            flip(largest, largest.stat().st_size // 3)
        case "cut":
            os.truncate(largest, largest.stat().st_size // 2)
        case "remove":
            largest.unlink()
        case "cut manifest":
            os.truncate(manifest, manifest.stat().st_size - 20)
        case "flip manifest":
            flip(manifest, manifest.stat().st_size // 2)
        case "remove all":
            for path in damaged.iterdir():
                path.unlink()
    store = LookupStore(home)
    for read in (
        lambda table: table.get(every(3 * KEYS), 0),
        lambda table: list(table.scan(0)),
        lambda table: (
            table.upsert(users(list(range(KEYS)), 9), writer="x", batch_id=0, now_us=0)
            and list(table.scan(0))
        ),
    ):
        with (
            pytest.raises((CorruptError, StoreError), match=r"(?s)data-0.*hint"),
            store.open("users") as table,
        ):
            read(table)


def test_damaged_settings_are_noticed(home, damaged):
    for at in (5, 40, -5):
        content = (damaged.parent / FILE).read_bytes()
        flip(damaged.parent / FILE, at)
        with pytest.raises(CorruptError, match=FILE):
            LookupStore(home).open("users").get(ids(1), 0)
        (damaged.parent / FILE).write_bytes(content)
    assert Settings.load(damaged.parent).version == 4


def test_a_damaged_table_can_be_replaced(home, damaged):
    settings = Settings.load(damaged.parent)
    for path in (files(damaged)[0], damaged.parent / FILE):
        flip(path, 40)
        flip(path, path.stat().st_size - 3)
    store = LookupStore(home)
    assert store.replace("users", settings, [users([1, 2, 2], 7)], 0) == 2
    with store.open("users") as table:
        assert scores(table.get(ids(0, 1, 2), 0)) == [None, 7, 7]
        assert table.upsert(users([3], 8), writer="w", batch_id=3, now_us=0).applied
    assert not damaged.exists()
