"""Passwords and tokens are in no answer, log, file, argument or environment where others may find them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from sqlalchemy import make_url, text

from braid.api.data import publish
from braid.core.errors import BraidError
from braid.home.service import Job
from braid.service.backends.local import LocalProcesses
from braid.service.registry.database import Database
from tests.service.conftest import emptied
from tests.service.serving import Served, until
from tests.service.test_commands import PROGRAM

SECRET = "s3cr3t-of-the-registry"


@pytest.fixture
def served(tmp_path: Path, postgres: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A service whose registry has a password."""
    url = make_url(emptied(postgres)).set(password=SECRET)
    monkeypatch.setenv("BRAID_REGISTRY", url.render_as_string(hide_password=False))
    found = Served(tmp_path / "home")
    found.start()
    yield found
    found.close()


def test_the_password_of_the_registry_is_nowhere(served: Served, tmp_path: Path, postgres: str) -> None:
    program = tmp_path / "app.sql"
    program.write_text(PROGRAM)
    publish("l", [{"id": 1}], served.home)
    served.braid("deploy", str(program), "--plan")
    secret = served.braid("tokens", "make", "ann").strip()
    served.braid("tokens", "drop", "none", code=1)
    address = json.loads(served.folder.address_file.read_text())
    token = served.folder.token_file.read_text().strip()
    with httpx.Client(base_url=address["url"], headers={"Authorization": f"Bearer {token}"}) as http:
        paths = http.get("/api/v1/openapi.json").json()["paths"]
        told = "".join(
            http.request(method, path.format(name="one", number=1), json={}).text
            for path, operations in paths.items()
            for method in operations
        )
    process = psutil.Process(address["pid"])
    arguments = [one.cmdline() for one in (process, *process.children(recursive=True))]
    found = [SECRET, secret, token]
    for one in found:
        assert one not in told
        assert one not in str(arguments)
    # Those who begin another one are told which registry it is, without its password.
    assert SECRET not in served.braid("serve", "--port", "0", code=1)
    served.end()
    for path in served.home.root.rglob("*"):
        if path.is_file() and path != served.folder.token_file:
            data = path.read_bytes()
            assert not any(one.encode() in data for one in found), path
    database = Database(postgres)
    with database.engine.connect() as connection:
        tables = connection.scalars(
            text("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
        ).all()
        assert "tokens" in tables
        for table in tables:
            rows = str(connection.execute(text(f'SELECT * FROM "{table}"')).all())
            assert not any(one in rows for one in found), table
    database.close()


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ann:{SECRET}@127.0.0.1:1/none",
        f"postgresql://127.0.0.1:1/none?user=ann&password={SECRET}",
        f"postgresql://127.0.0.1:{SECRET}/none",
        f"postgresql://ann:{SECRET}@127.0.0.1:port/none",
        f"postgresql://ann:{SECRET}@[::1/none",
        f"postgresql://ann:{SECRET}@127.0.0.1:1/none?bogus={SECRET}",
        f"nonsense://ann:{SECRET}@127.0.0.1/none",
        SECRET,
    ],
)
def test_a_registry_that_cannot_be_opened_is_named_without_its_password(url: str) -> None:
    with pytest.raises(BraidError) as found:
        Database(url).migrate()
    assert SECRET not in str(found.value)
    assert found.value.__suppress_context__


def test_drivers_do_not_get_secrets_of_the_service(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRAID_TOKEN", "braid_secret")
    backend = LocalProcesses(served.folder)
    folder = served.folder.driver("one")
    Job(id="a", version=1, plan={}, asked=0).write(folder.job_file)
    backend.start("one", Job(id="a", version=1, plan={}, asked=0))
    (child,) = backend._children
    environment = psutil.Process(child.pid).environ()
    child.kill()
    child.wait()
    assert "PATH" in environment
    assert not {"BRAID_TOKEN", "BRAID_REGISTRY"} & environment.keys()
    until(lambda: child.poll() is not None, "it does not end")
