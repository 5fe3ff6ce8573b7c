"""What the README shows is what happens."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from braid.home.paths import Home
from braid.home.service import Address, ServiceHome
from tests.service.serving import until

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
SCRIPT = Path(sys.executable).with_name("braid")
BRAID = [str(SCRIPT)] if SCRIPT.exists() else [sys.executable, "-m", "braid.cli"]
"""The command as it is installed, if it is."""


def test_the_program_shown_is_the_example() -> None:
    shown = re.search(r"```sql\n(.*?)```", README, re.DOTALL)
    assert shown is not None
    assert shown[1] == (ROOT / "examples" / "first" / "app.sql").read_text()


def test_every_link_leads_somewhere() -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)", README) if not link.startswith("http")]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_every_make_target_shown_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", README, re.MULTILINE):
        assert f"\n{target}:" in makefile


@contextmanager
def running(folder: Path) -> Iterator[None]:
    """See to it that what the README starts ends."""
    try:
        yield
    finally:
        address = Address.read(ServiceHome(Home.at(folder / "braid-home")).address_file)
        if address is not None:
            os.kill(address.pid, signal.SIGTERM)


def command(line: str, folder: Path) -> str:
    """What a command of the README prints."""
    environment = {**os.environ, "COLUMNS": "200"}
    if line == "make serve":
        with (folder / "serve.log").open("w") as log:
            # As the target does, with a port that is free.
            command = [*BRAID, "serve", "--port", "0"]
            subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env=environment)
        until((folder / "braid-home" / "service" / "address.json").exists, "the service does not begin")
        return ""
    done = subprocess.run(
        [*BRAID, *shlex.split(line)[1:]],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=150,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, f"{line}: {done.stderr}"
    return done.stdout


@pytest.mark.spark
def test_every_braid_command_works(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "first", tmp_path / "examples" / "first")
    output = {}
    with running(tmp_path):
        for line in re.findall(r"^(?:braid .+|make serve)", README, re.MULTILINE):
            output[line] = command(line, tmp_path)
    rows = [json.loads(line) for line in output["braid cat result"].splitlines()]
    found = sorted(
        (row["key"], row["dim_two"], row["dim_three"], row["metric"]) for row in rows if row["dim_two"]
    )
    assert found == [("a", "x", "one", 1.5), ("a", "y", "example", 1.5), ("c", "x", "three", 3.25)]
    assert sorted(row["metric"] for row in rows if row["dim_two"] is None) == [2.0, 4.0]
