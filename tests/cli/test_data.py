"""`braid publish`, `braid cat` and `braid categories`, and what commands say of what they cannot read."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from braid import __version__, api
from braid.cli.interrupts import INTERRUPTED
from braid.cli.main import app
from braid.core.columns import RAW_COLUMN
from braid.core.times import now_micros
from braid.home.paths import Home

FIGURE_3 = Path(__file__).parent.parent / "plan" / "figure3.sql"


def braid(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert "Traceback" not in result.stderr
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home with the records 0 to 9 in commits of three, published a minute apart, the last one now."""
    home = Home.at(tmp_path / "home")
    category = home.log().create("numbers", raw=True)
    for commit, begin in enumerate(range(0, 10, 3)):
        texts = [json.dumps(number) for number in range(begin, min(begin + 3, 10))]
        published = now_micros() - (3 - commit) * 60_000_000
        category.append(pa.table({RAW_COLUMN: pa.array(texts)}), wall_time=published)
    return home


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), range(10)),
        (("--last", "4"), range(6, 10)),
        (("--last", "0"), range(0)),
        (("--last", "100"), range(10)),
        (("--last", "4", "--limit", "2"), range(6, 8)),
        (("--since", "90 seconds"), range(6, 10)),
        (("--since", "1 second"), range(9, 10)),
        (("--since", "1 hour", "--last", "1"), range(9, 10)),
        (("--since", "2001-01-01"), range(10)),
        (("--since", "2999-01-01T00:00:00+01:00"), range(0)),
    ],
)
def test_cat_begins_where_it_is_told(home: Home, options: tuple[str, ...], expected: range) -> None:
    code, out, err = braid("cat", "numbers", "--home", home.root, *options)
    assert (code, err) == (0, "")
    assert [int(line) for line in out.splitlines()] == list(expected)


def test_a_time_without_a_zone_is_utc(home: Home) -> None:
    moment = datetime.fromtimestamp(now_micros() / 1e6 - 90, UTC).replace(tzinfo=None)
    code, out, _ = braid("cat", "numbers", "--home", home.root, "--since", moment.isoformat())
    assert (code, out) == (0, "6\n7\n8\n9\n")


def test_a_time_that_is_none(home: Home) -> None:
    code, _, err = braid("cat", "numbers", "--home", home.root, "--since", "yesterday")
    assert code == 1
    assert "'yesterday' is neither a time nor a duration" in err


def test_version() -> None:
    assert braid("--version") == (0, f"braid {__version__}\n", "")


@pytest.mark.parametrize("command", ["status", "categories", "upkeep"])
def test_a_home_that_is_not_there(tmp_path: Path, command: str) -> None:
    code, out, err = braid(command, "--home", tmp_path / "nowhere")
    assert (code, out) == (1, "")
    assert "nowhere: there is no home" in err
    assert not (tmp_path / "nowhere").exists()


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    code, _, err = braid("publish", "numbers", tmp_path / "missing", "--home", tmp_path / "home")
    assert (code, "missing: No such file or directory" in err) == (1, True)
    code, _, err = braid("publish", "numbers", tmp_path, "--home", tmp_path / "home")
    assert (code, "Is a directory" in err) == (1, True)


def test_a_home_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    records = tmp_path / "records.jsonl"
    records.write_text("{}\n")
    code, _, err = braid("publish", "numbers", records, "--home", tmp_path / "file")
    assert code == 1
    assert "file" in err


@pytest.mark.timeout(60)
def test_ctrl_c_ends_a_command_without_a_traceback(home: Home) -> None:
    command = [sys.executable, "-m", "braid.cli", "publish", "numbers", "--home", str(home.root)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdin is not None
        # The command is up once it reads: the pipe has room for less than this.
        process.stdin.write("{}\n" * 100_000)
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=50)
    finally:
        process.kill()
    assert process.returncode == INTERRUPTED
    assert "Traceback" not in err


@pytest.mark.timeout(60)
def test_a_line_is_published_while_its_pipe_stays_open(home: Home) -> None:
    command = [sys.executable, "-m", "braid.cli", "publish", "numbers", "--home", str(home.root)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdin is not None
        process.stdin.write("10\n")
        process.stdin.flush()
        batches = api.read_batches("numbers", home, follow=True)
        assert any("10" in batch[RAW_COLUMN].to_pylist() for batch in batches)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == INTERRUPTED
    assert "numbers: 1 records" in err
    assert "Traceback" not in err


def test_ctrl_c_tells_how_much_was_published(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def lines(read: Callable[[int], bytes], where: str) -> Iterator[pa.Table]:
        yield pa.table({RAW_COLUMN: ["10", "11"]})
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("braid.api.data.line_batches", lines)
    code, out, err = braid("publish", "numbers", "--home", home.root)
    assert (code, out, err) == (INTERRUPTED, "", "numbers: 2 records\ninterrupted\n")
    assert braid("cat", "numbers", "--home", home.root, "--last", "2")[1] == "10\n11\n"


@pytest.mark.parametrize("text", ["x[/y]", "[true,false]", ":warning:"])
def test_a_table_shows_texts_as_they_are(home: Home, text: str) -> None:
    api.publish("texts", [text], home)
    code, out, _ = braid("cat", "texts", "--format", "table", "--home", home.root)
    assert (code, text in out) == (0, True)


def test_a_home_that_is_read_only(small_disk: Path, tmp_path: Path) -> None:
    where = small_disk / "home"
    records = tmp_path / "records.jsonl"
    records.write_text("{}\n")
    assert braid("publish", "left", records, "--home", where)[0] == 0
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True, timeout=30)
    for command in (("publish", "left", records), ("publish", "new", records), ("run", FIGURE_3)):
        code, out, err = braid(*command, "--home", where)
        assert (code, out) == (1, "")
        assert str(where) in err
        assert "Read-only file system" in err
