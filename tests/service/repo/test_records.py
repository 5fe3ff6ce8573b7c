"""What the registry keeps of a folder, in SQLite and in PostgreSQL; nothing of it is kept by half."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from braid.api.data import publish
from braid.client.models import Desired
from braid.client.repo import FileState
from braid.core.logging import log_to_file
from braid.home.paths import Home
from braid.service.decide.follow import Content, Known
from braid.service.landing import void
from braid.service.loops.follow import Follow
from braid.service.records import events
from braid.service.registry.database import Database
from braid.service.repo import applying
from braid.service.repo.applying import Applier
from braid.service.repo.mirror import Mirror, Remote
from braid.service.repo.records import Comparer, file_info, forget, known, record
from braid.service.settings import Settings
from braid.service.trials import Trials
from tests.service.registry.test_database import application, version
from tests.service.repo.conftest import program
from tests.service.repo.gits import Repository
from tests.service.repo.test_following import CLICKS, MORE

WHOLE = Known(
    path="apps/clicks ä.sql",
    application="clicks",
    seen=Content("a" * 64, "b" * 64),
    state=FileState.PROBLEM,
    problem="it is wrong: ä",
    hint="mend it",
    agreed="c" * 64,
    landed=Content("d" * 64, ""),
    commit="e" * 64,
    version=3,
    accepted="f" * 64,
    tried=1_700_000_000.125,
    tries=4,
    basis="any",
)


def test_what_is_recorded_is_read_back(database: Database) -> None:
    bare = Known("apps/a.sql", "", Content("a" * 40))
    with database.transaction() as session:
        record(session, None, WHOLE, "g" * 64, 1.0)
        record(session, None, bare, "g" * 64, 1.0)
    with database.transaction() as session:
        assert known(session) == [bare, WHOLE]
        info = file_info(WHOLE)
        assert (info.problem, info.version, info.commit) == ("it is wrong: ä", 3, "e" * 64)
        assert file_info(bare).application is None
        record(session, WHOLE, WHOLE.stands(FileState.APPLIED), "g" * 64, 2.0)
        forget(session, bare)
        forget(session, bare)
    with database.transaction() as session:
        assert known(session) == [WHOLE.stands(FileState.APPLIED)]
        told = [(event.application, event.text) for event in events(session, 10)]
    assert told == [
        ("clicks", "apps/clicks ä.sql: it is wrong: ä"),
        ("clicks", "apps/clicks ä.sql: nothing is wrong any more"),
    ]


def test_the_same_trouble_is_told_once(database: Database) -> None:
    with database.transaction() as session:
        record(session, None, WHOLE, "g", 1.0)
        record(session, WHOLE, replace(WHOLE, problem="4 rows, not 3"), "g", 2.0)
        record(session, WHOLE, replace(WHOLE, seen=Content("x"), problem="another"), "g", 3.0)
        drift = WHOLE.stands(FileState.DRIFT, "version 4")
        record(session, WHOLE, drift, "g", 4.0)
        record(session, drift, drift.stands(FileState.DRIFT, "version 5"), "g", 5.0)
        session.flush()
        told = [event.text.partition(": ")[2] for event in events(session, 10)]
    assert told == ["it is wrong: ä", "another", "version 4", "version 5"]


def test_versions_that_matter_are_found(database: Database) -> None:
    with database.transaction() as session:
        for name in ("clicks", "visits", "other"):
            session.add(application(name))
        session.flush()
        for number, state in ((1, "accepted"), (2, "accepted"), (3, "void"), (4, "waiting")):
            one = version(number)
            one.state = state
            session.add(one)
        last = version(1, "visits")
        last.state = "void"
        session.add(last)
        session.flush()
        current = session.get(type(application()), "clicks")
        assert current is not None
        current.version = 2
    with database.reading() as session:
        found = Comparer().present(session, {"clicks": None, "visits": None, "other": None, "none": None})
    assert set(found) == {"clicks", "visits", "other"}
    clicks, visits, other = (found[name] for name in ("clicks", "visits", "other"))
    assert (clicks.version, clicks.author, clicks.latest, clicks.waiting, clicks.void) == (
        2,
        "ann",
        4,
        4,
        False,
    )
    assert (visits.version, visits.latest, visits.void, visits.waiting) == (None, 1, True, None)
    assert (other.version, other.latest, other.void) == (None, 0, False)
    with database.transaction() as session:
        void(session, "clicks", 4, "no more", 1.0)
        void(session, "clicks", 2, "no more", 1.0)  # it waits no more
    with database.reading() as session:
        clicks = Comparer().present(session, {"clicks": None})["clicks"]
    assert (clicks.version, clicks.waiting, clicks.void) == (2, None, True)


@pytest.fixture
def follow(database: Database, repository: Repository, tmp_path: Path) -> Follow:
    settings = Settings(home=tmp_path / "home", trial_seconds=0)
    home = Home.at(settings.home)
    for name in "lr":
        publish(name, [{"id": 1, "t": 1_700_000_000, "k": "a"}], home)
    with log_to_file(tmp_path / "log", "service") as log:
        return Follow(
            Applier(database, home, Trials(home, settings, log), review=False),
            Mirror(tmp_path / "mirrors", Remote.of(str(repository.root), None)),
            "apps",
            log,
            seconds=60,
            on_landed=lambda: None,
        )


def test_a_version_and_its_record_land_together_or_not_at_all(
    follow: Follow, database: Database, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the service is killed at the last moment before the transaction is committed."""

    def dies(*arguments: object) -> None:
        raise OperationalError("INSERT", {}, Exception("the disk is full"))

    repository.commit({CLICKS: program(), "apps/clicks.yaml": "desired: stopped"})
    for text in (program(), program(MORE)):
        repository.commit({CLICKS: text})
        with database.reading() as session:
            before = known(session), [event.id for event in events(session, 100)]
        monkeypatch.setattr(applying, "record", dies)
        for _ in range(2):
            with pytest.raises(OperationalError):
                follow.turn()
        monkeypatch.undo()
        with database.reading() as session:
            assert (known(session), [event.id for event in events(session, 100)]) == before
        follow.turn()
        follow.turn()
    with database.reading() as session:
        (found,) = known(session)
        present = Comparer().present(session, {"clicks": None})["clicks"]
    assert (found.version, found.state, present.version, present.latest) == (2, FileState.APPLIED, 2, 2)
    assert present.desired is Desired.STOPPED


def test_what_is_known_survives_a_rename_that_is_cut_short(
    follow: Follow, database: Database, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*arguments: object) -> None:
        raise OperationalError("INSERT", {}, Exception("the disk is full"))

    repository.commit({CLICKS: program()})
    follow.turn()
    repository.commit({CLICKS: None, "apps/renamed.sql": program(MORE)})
    monkeypatch.setattr(applying, "record", dies)
    with pytest.raises(OperationalError):
        follow.turn()
    monkeypatch.undo()
    follow.turn()
    with database.reading() as session:
        (found,) = known(session)
    assert (found.path, found.version, found.state) == ("apps/renamed.sql", 2, FileState.APPLIED)
