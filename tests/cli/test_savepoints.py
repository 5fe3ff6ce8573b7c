"""Savepoints on the command line: what is listed, dropped and refused. Taking them is tested on Spark."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest
from typer.testing import CliRunner

from braid import api
from braid.cli.main import app
from braid.core.errors import BraidError
from braid.engine.upkeep import alone_at_upkeep
from braid.home.control import Restoring
from braid.home.paths import Home
from braid.plan.serialise import loads
from braid.spark.saving import Saving
from tests.engine.test_drop import READER, WRITER, started

runner = CliRunner()


@pytest.fixture
def saved(home: Home) -> Home:
    """A home with a savepoint of an application that has done nothing yet."""
    started(home, WRITER)
    Saving(home.application("writer"), api.compile_text(WRITER).plan).save("one", lambda stage: nullcontext())
    return home


def braid(home: Home, *arguments: str, code: int = 0, **how: str) -> str:
    found = runner.invoke(app, [*arguments, "--home", str(home.root)], **how)  # type: ignore[arg-type]
    assert found.exit_code == code, found.output
    return found.output


def test_they_are_listed(saved: Home) -> None:
    started(saved, READER)
    assert "writer" in braid(saved, "savepoints")
    [found] = json.loads(braid(saved, "savepoints", "writer", "--json"))
    assert (found["name"], found["application"], found["pending"], found["row_bytes"]) == (
        "one",
        "writer",
        0,
        0,
    )
    assert json.loads(braid(saved, "savepoints", "reader", "--json")) == []


def test_one_is_dropped_when_that_is_confirmed(saved: Home) -> None:
    assert "savepoint one of writer" in braid(saved, "drop", "savepoint", "one", input="n\n", code=1)
    assert api.savepoints(home=saved)
    braid(saved, "drop", "savepoint", "one", "--yes")
    assert api.savepoints(home=saved) == []
    assert "no savepoint 'one'" in braid(saved, "drop", "savepoint", "one", "--yes", code=1)


def test_an_application_is_made_of_one_under_another_name(saved: Home) -> None:
    api.restore("one", "copy", saved)
    copy = saved.application("copy")
    text = WRITER.replace("APPLICATION writer", "APPLICATION copy")
    assert loads(copy.plan_file.read_bytes()) == api.compile_text(text).plan
    assert not copy.restoring_file.exists()


@pytest.mark.parametrize(
    ("name", "application", "what", "hint"),
    [
        ("two", "other", "there is no savepoint 'two'", "savepoints: one"),
        ("one", "writer", "application 'writer' exists", "braid drop app writer"),
        ("../one", "other", "there is no savepoint", "savepoints: one"),
    ],
)
def test_what_cannot_be_begun_from(
    saved: Home, tmp_path: Path, name: str, application: str, what: str, hint: str
) -> None:
    program = tmp_path / "app.sql"
    program.write_text(WRITER.replace("APPLICATION writer", f"APPLICATION {application}"))
    told = braid(saved, "run", str(program), "--from", name, code=1)
    assert what in told
    assert hint in told


def test_half_of_a_savepoint_is_not_run(saved: Home, tmp_path: Path) -> None:
    program = tmp_path / "app.sql"
    program.write_text(WRITER.replace("APPLICATION writer", "APPLICATION copy"))
    Restoring(savepoint="one").write(saved.application("copy").restoring_file)
    told = braid(saved, "run", str(program), code=1)
    assert "application 'copy' is half restored from savepoint 'one'" in told
    assert "--from one" in told
    assert "there is no savepoint 'two'" in braid(saved, "run", str(program), "--from", "two", code=1)


def test_a_name_is_given_once_and_must_be_one(saved: Home) -> None:
    saving = Saving(saved.application("writer"), api.compile_text(WRITER).plan)
    for name, what in (("one", "'one' exists"), ("a/b", "savepoint 'a/b' is not valid")):
        with pytest.raises(BraidError, match=what):
            saving.save(name, lambda stage: nullcontext())
    assert "has not run here" in braid(saved, "savepoint", "nobody", code=1)


def test_upkeep_is_waited_for(saved: Home) -> None:
    busy = pytest.raises(BraidError, match="another process is at the upkeep")
    with alone_at_upkeep(saved), busy, alone_at_upkeep(saved, 0.2):
        raise AssertionError
