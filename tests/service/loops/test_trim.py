from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import func, select

from braid.client.models import Desired, Role
from braid.core.logging import log_to_file
from braid.service.decide.retention import DAY, Kept
from braid.service.loops import trim
from braid.service.loops.trim import Trim
from braid.service.registry.database import Database
from braid.service.registry.tables import Application, Audit, Event, Start, Token

NOW = 1_000 * DAY


def fill(database: Database) -> None:
    """Something of each day."""
    with database.transaction() as session:
        session.add(
            Application(name="a", desired=Desired.RUNNING, version=1, owner="ann", created=0, restart=0)
        )
        session.flush()
        for day in range(0, 1_000, 5):
            at = day * DAY
            session.add(Event(at=at, application="a", kind="k", text="t", data={}))
            session.add(Audit(at=at, who="ann", source="s", action="a", target="t"))
            session.add(
                Start(job=str(day), application="a", version=1, restart=0, at=at, ended=at + 1, failed=True)
            )
            expires = None if day % 10 else at
            token = Token(id=str(day), name="ann", digest=str(day), role=Role.VIEWER, rows=False, created=0)
            token.expires = expires
            session.add(token)
        session.add(
            Start(job="open", application="a", version=1, restart=0, at=0.0, ended=None, failed=False)
        )


def counts(database: Database) -> dict[str, int]:
    with database.reading() as session:
        tables = (Event, Audit, Start, Token)
        return {
            one.__tablename__: session.scalar(select(func.count()).select_from(one)) or 0 for one in tables
        }


def test_what_may_go_goes_some_at_a_time(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trim, "MOST_AT_ONCE", 7)
    fill(database)
    with log_to_file(tmp_path / "log", "service") as log:
        loop = Trim(database, log, Kept(events=30, audit=730, tokens=30, starts=50), lambda: NOW)
        loop.turn()
        # Those of thirty days, of two years, fifty and the one that runs, and tokens that may be used.
        assert counts(database) == {"events": 6, "audit": 146, "starts": 51, "tokens": 103}
        loop.turn()
    assert counts(database) == {"events": 6, "audit": 146, "starts": 51, "tokens": 103}
    assert (tmp_path / "log").read_text().count("trimmed the registry") == 1
    with database.reading() as session:
        oldest = session.scalar(select(func.min(Event.at)))
        assert oldest == 970 * DAY
        assert session.get(Start, "open") is not None
        assert session.get(Start, "995") is not None
