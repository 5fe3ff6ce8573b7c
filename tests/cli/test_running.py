"""`braid run` with a program that cannot go on from what the last one left: no Spark is started."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from braid import api
from braid.api.data import publish
from braid.cli.main import app
from braid.home.control import Rescale, Rescaled, Updating
from braid.home.files import write_json
from braid.home.paths import Home
from braid.home.versions import keep_version
from braid.plan.serialise import plan_to_json
from tests.contents import contents

FIGURE_3 = Path(__file__).parent.parent / "plan" / "figure3.sql"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home in which the application of Figure 3 has run, and is stopped."""
    home = Home.at(tmp_path / "home")
    publish("left", [{"key": "a"}], home)
    application = home.application("sample_app")
    with application.running():
        write_json(application.plan_file, plan_to_json(api.compile_file(FIGURE_3).plan))
        write_json(application.status_file, {"application": "sample_app", "state": "stopped"})
    return home


@pytest.mark.parametrize(
    ("old", "new", "what", "instead"),
    [
        (
            'SCRIBE("right")',
            'SCRIBE("other")',
            "scribe right -> scribe other",
            "publish the new data into the old source",
        ),
        ("l.dim_one AS", "length(l.dim_one) AS", "string -> int", "CAST the expression to the type"),
    ],
)
def test_a_refused_update_touches_nothing(
    home: Home, tmp_path: Path, old: str, new: str, what: str, instead: str
) -> None:
    text = FIGURE_3.read_text()
    assert old in text
    program = tmp_path / "new.sql"
    program.write_text(text.replace(old, new))
    before = contents(home)
    found = CliRunner().invoke(app, ["run", str(program), "--home", str(home.root), "--drain"])
    assert found.exit_code == 1
    assert found.stdout == ""
    assert "the update of application 'sample_app' is refused" in found.stderr
    assert what in found.stderr
    assert instead in found.stderr
    assert "Traceback" not in found.stderr
    assert contents(home) == before
    assert not home.application("sample_app").is_running()


def test_a_replayed_update_says_what_it_does_and_wants_consent(home: Home, tmp_path: Path) -> None:
    program = tmp_path / "new.sql"
    program.write_text(FIGURE_3.read_text().replace("l.key = r.key", "upper(l.key) = upper(r.key)"))
    before = contents(home)
    found = CliRunner().invoke(app, ["run", str(program), "--home", str(home.root)])
    assert found.exit_code == 1
    assert "replayed" in found.stderr
    assert "both inputs are sliced again" in found.stderr
    assert "agree to it with --yes" in found.stderr
    assert "Traceback" not in found.stderr
    assert contents(home) == before


def test_an_update_that_was_interrupted_comes_first(home: Home, tmp_path: Path) -> None:
    application = home.application("sample_app")
    Updating(id="one", plan="another").write(application.updating_file)
    program = tmp_path / "new.sql"
    program.write_text(FIGURE_3.read_text().replace("'3 minutes'", "'5 minutes'"))
    found = CliRunner().invoke(app, ["run", str(program), "--home", str(home.root)])
    assert found.exit_code == 1
    assert "was interrupted" in found.stderr
    assert "next.plan.json --yes --discard" in found.stderr.replace("\n", "")


def test_versions_are_listed_and_one_that_is_not_there_is_named(home: Home) -> None:
    application = home.application("sample_app")
    keep_version(application, plan_to_json(api.compile_file(FIGURE_3).plan), 0.0)
    keep_version(application, {}, 86_400.0, "kept", ("option shards: 1 -> 2",))
    found = CliRunner().invoke(app, ["versions", "sample_app", "--home", str(home.root)])
    assert found.exit_code == 0
    assert "1970-01-02 00:00:00Z" in found.stdout
    assert "option shards: 1 -> 2" in found.stdout
    assert api.version_plan("sample_app", home=home) == api.compile_file(FIGURE_3).plan
    missing = CliRunner().invoke(app, ["rollback", "sample_app", "7", "--home", str(home.root)])
    assert missing.exit_code == 1
    assert "has no version 7" in missing.stderr
    assert "versions that are kept: 1, 2" in missing.stderr


@pytest.mark.parametrize(
    ("arguments", "what", "hint"),
    [
        (["sample_app", "--shards", "4"], "application 'sample_app' is not running", "--set shards=N"),
        (["other_app"], "application 'other_app' has not run here", "sample_app"),
        (["sample_app", "--partitions", "0"], "partitions is 0", "between 1 and 4096"),
    ],
)
def test_what_cannot_be_rescaled(home: Home, arguments: list[str], what: str, hint: str) -> None:
    before = contents(home)
    found = CliRunner().invoke(app, ["rescale", *arguments, "--home", str(home.root)])
    assert found.exit_code == 1
    assert what in found.stderr
    assert hint in found.stderr
    assert contents(home) == before


def test_a_running_application_is_asked_for_other_shards(home: Home) -> None:
    """The application, which is played by a thread here, answers what it was asked."""
    application, ended = home.application("sample_app"), threading.Event()

    def answer() -> None:
        with application.running():
            held.set()
            while (asked := Rescale.read(application.rescale_file)) is None and not ended.wait(0.01):
                continue
            assert asked is not None
            assert (asked.shards, asked.partitions) == (4, None)
            application.rescale_file.unlink()  # as a start does, which may come after the question
            while (asked := Rescale.read(application.rescale_file)) is None and not ended.wait(0.01):
                continue
            assert asked is not None
            Rescaled(id=asked.id, seconds={"joined": 1.25}).write(application.rescaled_file)
            ended.wait(60)

    held = threading.Event()
    thread = threading.Thread(target=answer)
    thread.start()
    try:
        assert held.wait(10)
        found = CliRunner().invoke(app, ["rescale", "sample_app", "--shards", "4", "--home", str(home.root)])
    finally:
        ended.set()
        thread.join(10)
    assert (found.exit_code, found.stdout) == (0, "joined: rescaled, paused for 1.2 s\n")
    assert not application.rescaled_file.exists()
