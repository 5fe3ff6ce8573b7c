"""`braid publish`, `braid cat` and `braid categories`, and what commands say of what they cannot read."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from braid import __version__
from braid.cli.errors import INTERRUPTED
from braid.cli.main import app
from braid.core.columns import RAW_COLUMN
from braid.core.times import now_micros
from braid.home.paths import Home


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


@pytest.mark.parametrize("command", ["status", "categories"])
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
    assert process.stdin is not None
    # The command is up once it reads: the pipe has room for less than this.
    process.stdin.write("{}\n" * 100_000)
    process.stdin.flush()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == INTERRUPTED
    assert "Traceback" not in err
