"""Commands about applications of a home that has no service: what they tell and do, and what they leave."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from braid import api
from braid.cli.main import app
from braid.core.errors import RunError
from braid.home.control import Answer, Request
from braid.home.paths import Home
from braid.home.service import Address, Job, ServiceHome, write_secret
from braid.home.status import RunState, Status
from tests.engine.test_drop import READER, started

NOBODY = 2**22 - 1
"""A process that is not there: the number is that of none, or of one that has long ended."""


@pytest.fixture
def ran(home: Home) -> Home:
    """A home in which an application has run."""
    started(home, READER)
    reader = home.application("reader")
    Status(application="reader", state=RunState.FAILED, error="x[/y]", pid=1).write(reader.status_file)
    reader.log_file.write_text('{"event": "starting"}\n{"event": "ended"}\n')
    return home


def braid(home: Home, *arguments: str, code: int = 0) -> Result:
    found = CliRunner().invoke(app, [*arguments, "--home", str(home.root)])
    assert found.exit_code == code, found.output
    assert "Traceback" not in found.output
    return found


@contextmanager
def running(home: Home) -> Iterator[None]:
    """Play the application: it ends when it is asked to."""
    reader, held, ended = home.application("reader"), threading.Event(), threading.Event()

    def play() -> None:
        with reader.running():
            Status(application="reader", state=RunState.RUNNING, pid=7).write(reader.status_file)
            held.set()
            while (asked := Request.read(reader.stop_file)) is None and not ended.wait(0.01):
                continue
            if asked is not None:
                Answer(id=asked.id).write(reader.stopping_file)
                reader.stop_file.unlink()
                Status(application="reader", state=RunState.STOPPED).write(reader.status_file)

    thread = threading.Thread(target=play)
    thread.start()
    try:
        assert held.wait(10)
        yield
    finally:
        ended.set()
        thread.join(10)


def test_what_has_run_is_listed_and_shown(ran: Home) -> None:
    shown = braid(ran, "apps")
    assert "reader" in shown.stdout
    assert "failed" in shown.stdout
    assert "x[/y]" in shown.stdout
    assert shown.stderr == ""
    [listed] = json.loads(braid(ran, "apps", "--json").stdout)
    assert (listed["name"], listed["state"], listed["pid"]) == ("reader", "failed", None)
    assert "reader: failed" in braid(ran, "app", "reader").stdout
    with running(ran):
        whole = json.loads(braid(ran, "app", "reader", "--json").stdout)
    assert (whole["state"], whole["pid"], whole["desired"]) == ("running", 7, "running")
    assert whole["status"]["application"] == "reader"
    assert braid(ran, "logs", "reader", "-n", "1").stdout == '{"event": "ended"}\n'


def test_a_process_that_is_gone_is_told(ran: Home) -> None:
    Status(application="reader", state=RunState.RUNNING, pid=NOBODY).write(
        ran.application("reader").status_file
    )
    assert "reader: killed" in braid(ran, "app", "reader").stdout


def test_a_running_application_is_asked_to_end(ran: Home) -> None:
    with running(ran):
        assert braid(ran, "stop", "reader").stdout == "reader: stopped\n"
    assert not ran.application("reader").is_running()
    assert "is not running" in braid(ran, "stop", "reader", code=1).stderr
    with pytest.raises(RunError, match="is not running"):
        api.stop("reader", ran)


def test_what_is_deployed_is_said_to_come_back_and_is_not_deleted(ran: Home) -> None:
    Job(id="a", version=1, asked=0.0).write(ServiceHome(ran).driver("reader").job_file)
    with running(ran):
        assert "the next `braid serve` starts it again" in braid(ran, "stop", "reader").stderr
    refused = braid(ran, "delete", "reader", "--yes", code=1).stderr
    assert "is deployed, and no service of this home is running" in refused
    assert ran.applications()


def test_delete_says_what_goes_and_keeps_what_is_to_stay(ran: Home) -> None:
    assert "nobody has agreed" in braid(ran, "delete", "reader", code=1).stderr
    with running(ran):
        assert "is running" in braid(ran, "delete", "reader", "--yes", code=1).stderr
    said = braid(ran, "delete", "reader", "--keep-data", "--yes")
    assert "removes application reader" in said.stderr
    assert "keeps category copy" in said.stderr
    assert said.stdout == "reader: deleted\n"
    assert ran.applications() == []
    assert "copy" in ran.log().categories()


@pytest.mark.parametrize("command", ["app", "logs", "stop", "delete"])
def test_what_is_not_there_is_named(ran: Home, command: str) -> None:
    said = braid(ran, command, "nobody", code=1).stderr
    assert "there is no application 'nobody'" in said
    assert "reader" in said


@pytest.mark.parametrize(
    ("arguments", "instead"),
    [
        (["deploy", "app.sql", "--yes"], "braid run"),
        (["start", "reader"], "braid run"),
        (["restart", "reader"], "braid run"),
        (["approve", "reader", "1", "abc"], "braid serve"),
        (["events"], "braid logs"),
        (["tokens", "list"], "braid serve"),
    ],
)
def test_what_needs_a_service_says_so(
    ran: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], instead: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.sql").write_text("CREATE APPLICATION reader;")
    said = braid(ran, *arguments, code=1).stderr
    assert "no service is running for this home" in said
    assert "braid serve" in said
    assert instead in said


def test_a_service_that_has_died_is_told(ran: Home) -> None:
    folder = ServiceHome(ran)
    folder.make()
    address = Address(url="http://127.0.0.1:1", pid=NOBODY)
    write_secret(folder.address_file, address.model_dump_json())
    shown = braid(ran, "apps")
    assert "the service of this home has died" in shown.stderr
    assert "reader" in shown.stdout
    assert "has died" in braid(ran, "start", "reader", code=1).stderr
    assert "has died" in braid(ran, "top").stderr


@pytest.mark.parametrize(
    "arguments",
    [["apps"], ["app", "reader"], ["logs", "reader"], ["stop", "reader"], ["top"], ["versions", "reader"]],
)
def test_a_server_that_is_named_is_asked_and_nothing_else(
    ran: Home, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setenv("BRAID_TOKEN", "braid_x")
    said = braid(ran, *arguments, "--server", "http://127.0.0.1:1", code=1)
    assert "the service does not answer" in said.stderr
    assert said.stdout == ""
    monkeypatch.setenv("BRAID_SERVER", "http://127.0.0.1:1")
    assert "the service does not answer" in braid(ran, *arguments, code=1).stderr
