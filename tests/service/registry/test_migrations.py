"""A registry of the first schema, with rows, is brought to the present one; a newer one is left alone."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import MetaData, insert, inspect, select, text

from braid.core.errors import StoreError
from braid.service.registry.database import Database
from braid.service.registry.tables import Base, Version

FIRST = "0001"
ROWS: dict[str, dict[str, Any]] = {
    "applications": {
        "name": "clicks",
        "desired": "running",
        "version": 1,
        "owner": "ann",
        "created": 1_700_000_000.125,
        "restart": 2,
    },
    "versions": {
        "application": "clicks",
        "number": 1,
        "program": "CREATE APPLICATION clicks; -- ä",
        "options": {"shards": "2"},
        "plan": {"application": "clicks", "stages": [1, None, {"a": "ä"}]},
        "hash": "f" * 64,
        "author": "ann",
        "created": 1_700_000_000.25,
        "verdict": "kept",
        "changes": ["a: b"],
        "replay": True,
        "discard": False,
        "create": True,
        "state": "accepted",
        "approved_by": "bob",
    },
    "starts": {
        "job": "a" * 32,
        "application": "clicks",
        "version": 1,
        "restart": 2,
        "at": 1_700_000_001.5,
        "ended": 1_700_000_002.5,
        "failed": True,
        "domain": "outside",
        "error": "the disk is full",
    },
    "events": {
        "id": 7,
        "at": 1_700_000_003.5,
        "application": "clicks",
        "kind": "version",
        "text": "version 1 by ann",
        "data": {"version": 1},
    },
    "audit": {
        "id": 8,
        "at": 1_700_000_004.5,
        "who": "ann",
        "source": "127.0.0.1",
        "action": "deploy",
        "target": "clicks",
        "before": {"version": None},
        "after": {"version": 1},
    },
    "tokens": {
        "id": "0" * 12,
        "name": "ann",
        "digest": "e" * 64,
        "role": "editor",
        "rows": True,
        "created": 1_700_000_005.5,
        "expires": None,
        "used": 1_700_000_006.5,
    },
}


@pytest.fixture
def first(empty_database: Database) -> Database:
    """A registry of the first schema, with a row in each table."""
    empty_database.migrate(FIRST)
    tables = MetaData()
    tables.reflect(empty_database.engine)
    assert set(tables.tables) == {*ROWS, "alembic_version"}
    with empty_database.engine.begin() as connection:
        for name, row in ROWS.items():
            connection.execute(insert(tables.tables[name]).values(row))
    return empty_database


def stored(database: Database) -> dict[str, list[dict[str, Any]]]:
    """All rows of all tables that the code knows, read as it reads them."""
    found = {}
    with database.reading() as session:
        for mapper in Base.registry.mappers:
            rows = session.scalars(select(mapper.class_)).all()
            names = mapper.columns.keys()
            found[mapper.class_.__tablename__] = [{one: getattr(row, one) for one in names} for row in rows]
    return found


def test_rows_of_the_first_schema_are_read_after_all_migrations(first: Database) -> None:
    first.migrate()
    found = stored(first)
    for name, row in ROWS.items():
        assert [{one: value for one, value in kept.items() if one in row} for kept in found[name]] == [row]
    first.migrate()
    assert stored(first) == found


def test_what_came_later_is_as_usual_for_rows_of_before(first: Database) -> None:
    first.migrate()
    with first.reading() as session:
        version = session.scalars(select(Version)).one()
        assert (version.resources, version.desired, version.writers) == ({}, "running", [])


def test_numbers_go_on_after_a_migration(first: Database) -> None:
    first.migrate()
    with first.transaction() as session:
        if first.engine.dialect.name == "postgresql":  # rows with given numbers do not move the sequence on
            session.execute(text("SELECT setval(pg_get_serial_sequence('events', 'id'), 7)"))
        event = {"at": 1.0, "application": None, "kind": "k", "text": "t", "data": {}}
        session.execute(insert(Base.metadata.tables["events"]).values(event))
    assert [one["id"] for one in stored(first)["events"]] == [7, 8]


def test_a_registry_of_a_newer_program_is_left_alone(first: Database) -> None:
    first.migrate()
    before = inspect(first.engine).get_table_names()
    with first.transaction() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StoreError, match="newer version") as found:
        first.migrate()
    assert "9999" in str(found.value)
    assert inspect(first.engine).get_table_names() == before
