"""Registries of the tests, every one of them in SQLite and in PostgreSQL; and a service to be asked."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import text

from braid.client.models import NewToken, Role
from braid.core.logging import log_to_file
from braid.home.paths import Home
from braid.home.service import ServiceHome
from braid.service.identity import make_token
from braid.service.loops.supervise import Supervise
from braid.service.main import create_app, open_state
from braid.service.registry.database import Database
from braid.service.settings import Settings
from braid.service.state import ServiceState
from tests.service.postgres import binaries, server
from tests.service.standing_in import Drivers


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a PostgreSQL database."""
    if binaries() is None:
        pytest.skip("PostgreSQL is not installed")
    with tempfile.TemporaryDirectory(prefix="braid-postgres-") as folder, server(Path(folder)) as url:
        yield url


def emptied(url: str) -> str:
    """The URL of a database in which nothing is left."""
    found = Database(url)
    with found.transaction() as session:
        session.execute(text("DROP SCHEMA public CASCADE"))
        session.execute(text("CREATE SCHEMA public"))
    found.close()
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A database without a schema."""
    if request.param == "sqlite":
        found = Database(f"sqlite:///{tmp_path / 'registry.db'}")
    else:
        found = Database(emptied(request.getfixturevalue("postgres")))
    yield found
    found.close()


@pytest.fixture
def database(empty_database: Database) -> Database:
    """A registry."""
    empty_database.migrate()
    return empty_database


@dataclass
class Tried:
    """A service without a process of its own, and who asks it."""

    state: ServiceState
    drivers: Drivers
    http: TestClient
    app: FastAPI

    def token(
        self, name: str, role: Role = Role.EDITOR, rows: bool = False, only: Sequence[str] = ()
    ) -> dict[str, str]:
        """Headers of somebody who asks."""
        asked = NewToken(name=name, role=role, rows=rows, only=list(only))
        with self.state.database.transaction() as session:
            made = make_token(session, asked, time.time())
        return {"Authorization": f"Bearer {made.secret}"}

    def settle(self) -> None:
        """Let the loop do all that is to be done."""
        for _ in range(6):
            self.state.supervise.turn()


@pytest.fixture
def tried(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Tried]:
    """A service whose loops take a turn when a test says so; parameters are settings."""
    # Trials take a second each.
    given = {"trial_seconds": 0, **getattr(request, "param", {})}
    if given.get("registry") == "postgresql":
        given["registry"] = emptied(request.getfixturevalue("postgres"))
    with trying(Settings(home=tmp_path / "home", **given)) as found:
        yield found


@contextmanager
def trying(settings: Settings) -> Iterator[Tried]:
    """A service whose loops take a turn when a test says so."""
    folder = ServiceHome(Home.at(settings.home))
    folder.make()
    with log_to_file(folder.root / "service.log", "service") as log:
        state = open_state(settings, log)
        drivers = Drivers(folder)
        state.supervise = Supervise(state.database, folder, drivers, log)
        app = create_app(state)
        token = folder.token_file.read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        # Its loops are not started, as the application's life is not entered.
        http = TestClient(app, base_url="http://127.0.0.1", headers=headers)
        yield Tried(state, drivers, http, app)
        state.database.close()
