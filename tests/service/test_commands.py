"""Commands that are given to a service, and what they say when something is wrong; without Spark."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from braid.api.data import publish
from tests.service.serving import Served

PROGRAM = 'CREATE APPLICATION one; CREATE INPUT TABLE l (id bigint) FROM SCRIBE("l"); '
PROGRAM += 'CREATE TABLE out AS SELECT id FROM l STORAGE SCRIBE(category = "out");'


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    found = Served(tmp_path / "home")
    found.start()
    yield found
    found.close()


def test_plans_tokens_and_audit(served: Served, tmp_path: Path) -> None:
    program = tmp_path / "app.sql"
    program.write_text(PROGRAM)
    publish("l", [{"id": 1}], served.home)
    assert "one: a new application" in served.braid("deploy", str(program), "--plan")
    assert json.loads(served.braid("apps", "--json")) == []
    secret = served.braid("tokens", "make", "ann", "--role", "viewer").strip()
    assert secret.startswith("braid_")
    assert "ann" in served.braid("tokens", "list")
    assert secret not in served.braid("tokens", "list")
    assert "make token" in served.braid("audit")
    (change,) = json.loads(served.braid("audit", "--json", "--by", "owner", "--since", "1 hour"))
    assert (change["action"], change["after"]["name"]) == ("make token", "ann")
    assert json.loads(served.braid("audit", "--json", "--before", str(change["id"]))) == []
    assert served.braid("events", "--kind", "failed", "--json") == ""
    assert "neither a time nor a duration" in served.braid("events", "--since", "soon", code=1)
    assert "owner, known by token, from 127.0.0.1" in served.braid("whoami")
    limited = served.braid("tokens", "make", "bob", "--role", "editor", "--only", "search_*").strip()
    assert limited.startswith("braid_")
    assert "search_*" in served.braid("tokens", "list")
    assert "limits would mean nothing" in served.braid(
        "tokens", "make", "eve", "--role", "admin", "--only", "x", code=1
    )


def test_what_is_wrong_is_said_in_a_line_or_two(served: Served, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.sql"
    wrong.write_text("CREATE APPLICATION one; CREATE TABLE")
    for arguments, said in (
        (["deploy", str(tmp_path / "none.sql"), "--yes"], "cannot read the file"),
        (["deploy", str(wrong), "--yes"], "error"),
        (["app", "nobody"], "there is no application 'nobody'"),
        (["stop", "nobody"], "there is no application 'nobody'"),
        (["approve", "nobody", "1", "abc"], "there is no application 'nobody'"),
        (["delete", "nobody", "--yes"], "there is no application 'nobody'"),
        (["logs", "nobody"], "there is no application 'nobody'"),
        (["tokens", "drop", "none"], "there is no token 'none'"),
        (["serve", "--port", "0"], "is running already"),
        (["apps", "--server", "http://127.0.0.1:1"], "there is no token"),
    ):
        assert said in served.braid(*arguments, code=1), arguments


def test_an_address_that_is_taken_is_refused(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = Served(tmp_path / "home").braid("serve", "--port", str(port), code=1)
    assert f"cannot listen on 127.0.0.1:{port}" in said


def test_the_service_ends_in_good_order_and_leaves_no_address(served: Served) -> None:
    url = json.loads(served.folder.address_file.read_text())["url"]
    assert httpx.get(f"{url}/api/v1/health").json() == {"well": True}
    assert served.end() == 0
    assert not served.folder.address_file.exists()
    assert "no service is running" in served.braid("events", code=1)
    assert "application" in served.braid("apps")


def test_a_service_that_was_killed_is_said_to_have_died(served: Served) -> None:
    served.end(signal.SIGKILL)
    assert "the service of this home has died" in served.braid("apps")
    assert "the service of this home has died" in served.braid("start", "one", code=1)
    served.start()
    assert json.loads(served.braid("apps", "--json")) == []
