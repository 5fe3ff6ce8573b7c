"""What the README shows is what happens."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.spark
def test_every_braid_command_works(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "first", tmp_path / "examples" / "first")
    output = {}
    for line in re.findall(r"^braid .+$", README, re.MULTILINE):
        done = subprocess.run(
            [*BRAID, *shlex.split(line)[1:]],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=150,
            env={**os.environ, "COLUMNS": "200"},
            check=False,
        )
        assert done.returncode == 0, f"{line}: {done.stderr}"
        output[line] = done.stdout
    rows = [json.loads(line) for line in output["braid cat result"].splitlines()]
    found = sorted(
        (row["key"], row["dim_two"], row["dim_three"], row["metric"]) for row in rows if row["dim_two"]
    )
    assert found == [("a", "x", "one", 1.5), ("a", "y", "example", 1.5), ("c", "x", "three", 3.25)]
    assert sorted(row["metric"] for row in rows if row["dim_two"] is None) == [2.0, 4.0]
