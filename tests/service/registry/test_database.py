from __future__ import annotations

import threading
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from braid.client.models import Desired
from braid.core.errors import ConfigError, StoreError
from braid.service.registry.database import Database
from braid.service.registry.tables import Application, Base, Event, Version


def application(name: str = "clicks") -> Application:
    return Application(name=name, desired=Desired.RUNNING, version=None, owner="ann", created=1.0, restart=0)


def version(number: int, name: str = "clicks") -> Version:
    return Version(
        application=name,
        number=number,
        program="CREATE APPLICATION clicks;",
        options={"shards": "2"},
        plan={"application": name},
        hash="h",
        author="ann",
        created=1.0,
        verdict=None,
        changes=["a: ä"],
        replay=False,
        discard=False,
        create=False,
        state="accepted",
        approved_by=None,
    )


def test_migrations_make_the_tables_that_the_code_uses(database: Database) -> None:
    with database.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []
    database.migrate()  # nothing is left to do


def test_what_is_written_is_read_back(database: Database) -> None:
    with database.transaction() as session:
        session.add(application())
        session.flush()
        session.add(version(1))
        session.add(Event(at=1_700_000_000.125, application="clicks", kind="k", text="t", data={"a": [1]}))
    with database.transaction() as session:
        found = session.get(Version, ("clicks", 1))
        assert found is not None
        assert (found.changes, found.options, found.replay) == (["a: ä"], {"shards": "2"}, False)
        event = session.scalars(select(Event)).one()
        assert (event.id, event.at, event.data) == (1, 1_700_000_000.125, {"a": [1]})


def test_versions_go_with_their_application_and_no_number_comes_twice(database: Database) -> None:
    with database.transaction() as session:
        session.add(application())
        session.flush()
        session.add(version(1))
    with pytest.raises(IntegrityError), database.transaction() as session:
        session.add(version(1))
    with pytest.raises(IntegrityError), database.transaction() as session:
        session.add(version(1, "nobody"))
    with database.transaction() as session:
        found = session.get(Application, "clicks")
        session.delete(found)
    with database.transaction() as session:
        assert session.scalars(select(Version)).all() == []


def test_transactions_that_read_and_write_follow_each_other(tmp_path: Path) -> None:
    """Two that count up at once: none is lost, none fails."""
    database = Database(f"sqlite:///{tmp_path / 'registry.db'}")
    database.migrate()
    with database.transaction() as session:
        session.add(application())

    def count() -> None:
        for _ in range(50):
            with database.transaction() as session:
                found = session.get(Application, "clicks")
                assert found is not None
                found.restart += 1

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.transaction() as session:
        found = session.get(Application, "clicks")
        assert found is not None
        assert found.restart == 200
    database.close()


def test_a_database_that_cannot_be_used_is_told_in_words(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be used"):
        Database("nonsense")
    with pytest.raises(ConfigError, match="cannot be used"):
        Database("oracledb9://x")
    with pytest.raises(StoreError, match="cannot be opened"):
        Database(f"sqlite:///{tmp_path / 'no' / 'folder.db'}").migrate()
    with pytest.raises(StoreError, match="cannot be opened") as found:
        Database("postgresql://ann:secret@127.0.0.1:1/none").migrate()
    assert "secret" not in str(found.value)
