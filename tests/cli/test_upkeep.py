from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from braid.cli.main import app
from braid.home.paths import Home
from tests.engine.test_drop import READER, started

runner = CliRunner()


def test_upkeep_tells_what_is_kept_and_for_whom(home: Home) -> None:
    started(home, READER)
    at = ["--home", str(home.root)]
    shown = runner.invoke(app, ["upkeep", "--dry-run", *at])
    assert shown.exit_code == 0, shown.output
    assert "commit 0 needed by reader/copy, which has not run yet" in shown.output
    assert "dead letters" in shown.output
    found = json.loads(runner.invoke(app, ["upkeep", "--json", *at]).output)
    assert [one["category"] for one in found["categories"]] == ["copy", "once", "reader.dead_letter"]


def test_a_damaged_application_gives_an_exit_code(home: Home) -> None:
    started(home, READER)
    home.application("reader").plan_file.write_text("{")
    shown = runner.invoke(app, ["upkeep", "--home", str(home.root)])
    assert shown.exit_code == 1
    assert "nothing was retired: application reader" in shown.output


def test_drop_says_what_goes_and_asks(home: Home, tmp_path: Path) -> None:
    started(home, READER)
    at = ["--home", str(home.root)]
    asked = runner.invoke(app, ["drop", "app", "reader", *at], input="n\n")
    assert asked.exit_code == 1
    assert "category copy: " in asked.output
    assert home.applications()
    assert runner.invoke(app, ["drop", "app", "reader", "--yes", *at]).exit_code == 0
    assert not home.applications()
    assert runner.invoke(app, ["drop", "category", "once", "--yes", *at]).exit_code == 0
    assert home.log().categories() == []
