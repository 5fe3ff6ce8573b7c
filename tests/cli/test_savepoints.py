"""Savepoints on the command line: what is listed, dropped and refused. Taking them is tested on Spark."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner

from braid import api
from braid.cli.main import app
from braid.core.config import AppConfig
from braid.core.errors import BraidError, RunError
from braid.core.owner import Owner
from braid.engine.upkeep import alone_at_upkeep
from braid.home.control import Restoring, SinkStart
from braid.home.owners import claim_folder
from braid.home.paths import Home
from braid.plan.serialise import loads
from braid.plan.stages.base import Stage
from braid.spark import restoring
from braid.spark.checkpoints import begin_batch, end_batch
from braid.spark.saving import Saving, StateOf
from tests.engine.test_drop import READER, WRITER, started
from tests.log.samples import rows

runner = CliRunner()


@pytest.fixture
def saved(home: Home) -> Home:
    """A home with a savepoint of an application that has done nothing yet."""
    started(home, WRITER)
    save(home, "one")
    return home


def save(home: Home, name: str, state_of: StateOf = lambda stage: nullcontext()) -> None:
    """Take a savepoint of what no stage has a state of."""
    saving = Saving(home.application("writer"), api.compile_text(WRITER).plan, AppConfig())
    saving.save(name, state_of, Mock(side_effect=AssertionError))


def copy_of(text: str) -> str:
    """A program with another name, and with other places to store in."""
    return text.replace("APPLICATION writer", "APPLICATION copy").replace(' = "', ' = "copy_')


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
    plan = api.compile_text(copy_of(WRITER)).plan
    api.restore("one", plan, saved)
    copy = saved.application("copy")
    assert loads(copy.plan_file.read_bytes()) == plan
    assert not copy.restoring_file.exists()


def test_a_copy_never_had_tables_that_its_program_lacks(saved: Home) -> None:
    text = "\n".join(line for line in copy_of(WRITER).splitlines() if "lake" not in line)
    api.restore("one", api.compile_text(text).plan, saved)
    names = [stage.name for stage in loads(saved.application("copy").plan_file.read_bytes()).stages]
    assert "j" in names
    assert "lake" not in names


def test_what_is_refused_leaves_nothing(saved: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    other = copy_of(WRITER).replace('SCRIBE("r")', 'SCRIBE("s")')
    relayed = copy_of(WRITER).replace('SCRIBE(category = "copy_once")', "CONSOLE()")
    stolen = copy_of(WRITER).replace("copy_lake", "lake")
    claim_folder(saved.root / "warehouse" / "lake", Owner("writer", "lake"))
    for text, what in (
        (other, "the update of application 'copy' is refused"),
        (relayed, "was stored in scribe once, so it cannot begin"),
        (stolen, "table 'lake' is written by application 'writer'"),
    ):
        with pytest.raises(RunError, match=what):
            api.restore("one", api.compile_text(text).plan, saved)
    monkeypatch.setattr(restoring, "_PATIENCE", 0.0)
    with alone_at_upkeep(saved), pytest.raises(RunError, match="at the upkeep"):
        api.restore("one", api.compile_text(copy_of(WRITER)).plan, saved)
    assert not list((saved.root / "apps" / "copy").glob("**/*.json"))
    assert not [name for name in saved.log().categories() if name.startswith("copy")]


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
    program.write_text(copy_of(WRITER))
    Restoring(savepoint="one").write(saved.application("copy").restoring_file)
    told = braid(saved, "run", str(program), code=1)
    assert "application 'copy' is half restored from savepoint 'one'" in told
    assert "--from one" in told
    assert "there is no savepoint 'two'" in braid(saved, "run", str(program), "--from", "two", code=1)
    # What had been made for it goes with it.
    saved.log().create("copy.j", rows(1).schema, shards=1, owner=Owner("copy", "j"))
    braid(saved, "drop", "app", "copy", "--yes")
    assert not saved.log().has("copy.j")


def test_a_name_is_given_once_and_must_be_one(saved: Home) -> None:
    for name, what in (("one", "'one' exists"), ("a/b", "savepoint 'a/b' is not valid")):
        with pytest.raises(BraidError, match=what):
            save(saved, name)
    assert "has not run here" in braid(saved, "savepoint", "nobody", code=1)


def test_a_savepoint_that_fails_leaves_nothing(saved: Home) -> None:
    fails = Mock(side_effect=RunError("it is held up"))
    with pytest.raises(RunError, match="held up"):
        save(saved, "two", fails)
    assert [path.name for path in saved.savepoints.iterdir()] == ["one"]


def test_a_checkpoint_that_does_not_know_yet_what_is_published_is_waited_for(saved: Home) -> None:
    """Else a join that has read it would find it again, under another number."""
    app, log = saved.application("writer"), saved.log()
    slicer = next(stage for stage in api.compile_text(WRITER).plan.stages if stage.name == "j.left")
    SinkStart(target=slicer.sink.name, first_commit=0).write(app.control_file(slicer.name, "sink"))
    begin_batch(app.checkpoint(slicer.name), 0, 0, '{"next":[3,0]}')
    log.open(slicer.sink.name).append(rows(1))
    waited = []

    def pause(stage: Stage) -> None:
        waited.append(stage.name)
        end_batch(app.checkpoint(slicer.name), 0)

    saving = Saving(app, api.compile_text(WRITER).plan, AppConfig())
    found = saving.save("two", lambda stage: nullcontext(), pause).queries[slicer.name]
    assert waited == [slicer.name]
    assert (found.batch, found.commit) == (0, 0)
    # Without the file that says where it began to write, its commits are not known.
    app.control_file(slicer.name, "sink").unlink()
    with pytest.raises(RunError, match="began to write is missing"):
        save(saved, "three")


def test_upkeep_is_waited_for(saved: Home) -> None:
    busy = pytest.raises(BraidError, match="another process is at the upkeep")
    with alone_at_upkeep(saved), busy, alone_at_upkeep(saved, 0.2):
        raise AssertionError
