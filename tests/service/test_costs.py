"""What the service does again and again takes a few statements, however many applications there are."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine, event

from braid.client.models import Desired, VersionState
from braid.core.logging import log_to_file
from braid.home.paths import Home
from braid.home.service import Driver, DriverState, Job, JobPlan, ServiceHome
from braid.service.actual import Actuals
from braid.service.loops.supervise import Supervise
from braid.service.registry.database import Database
from braid.service.registry.tables import Application, Start, Version
from tests.service.conftest import Tried
from tests.service.standing_in import Drivers

MANY = 200


@contextmanager
def statements(engine: Engine) -> Iterator[list[str]]:
    """The statements that are made in the block."""
    found: list[str] = []

    def note(connection: object, cursor: object, statement: str, *rest: object) -> None:
        found.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(engine, "before_cursor_execute", note)


def register(database: Database, names: list[str]) -> None:
    """Have applications that should run."""
    with database.transaction() as session:
        for name in names:
            session.add(
                Application(name=name, desired=Desired.RUNNING, version=1, owner="a", created=0.0, restart=1)
            )
        session.flush()
        for name in names:
            session.add(
                Version(
                    application=name,
                    number=1,
                    program="",
                    options={},
                    resources={},
                    plan={"stages": ["x" * 50_000]},
                    hash="",
                    author="a",
                    created=0.0,
                    verdict=None,
                    changes=[],
                    replay=False,
                    discard=False,
                    create=False,
                    state=VersionState.ACCEPTED,
                    approved_by=None,
                )
            )


def register_runs(tried: Tried, names: list[str]) -> None:
    """Have applications that run, with some starts that have failed before."""
    register(tried.state.database, names)
    now = time.time()
    with tried.state.database.transaction() as session:
        for name in names:
            for number in range(4):
                ended = None if number == 3 else now - 90 + number
                session.add(
                    Start(
                        job=f"{name}{number}",
                        application=name,
                        version=1,
                        restart=1,
                        at=now - 100 + number,
                        ended=ended,
                        failed=ended is not None,
                        domain=None,
                        error="it has failed",
                    )
                )
    for number, name in enumerate(names):
        folder = tried.state.folder.driver(name)
        job = Job(id=f"{name}3", version=1, asked=now)
        job.write(folder.job_file, durable=False)
        state, pid = DriverState.RUNNING, 1_000_000 + number
        driver = Driver(job=job.id, version=1, pid=pid, began="", beat=now + 10_000, state=state)
        driver.write(folder.driver_file, durable=False)
        tried.drivers.alive[pid] = name


def test_a_turn_with_nothing_to_do_makes_few_statements_and_does_not_write(tried: Tried) -> None:
    register_runs(tried, [f"app{number}" for number in range(MANY)])
    with statements(tried.state.database.engine) as made:
        tried.state.supervise.turn()
    assert len(made) <= 3
    assert "BEGIN IMMEDIATE" not in made
    assert not tried.drivers.started
    with tried.state.database.transaction():
        tried.state.supervise.turn()  # nobody who writes holds it up


def test_applications_that_wait_for_their_next_start_are_asked_for_together(tried: Tried) -> None:
    register_runs(tried, [f"app{number}" for number in range(MANY)])
    tried.drivers.alive.clear()
    tried.state.supervise.turn()  # takes note of all that have died
    with statements(tried.state.database.engine) as made:
        tried.state.supervise.turn()
    assert len(made) <= 4
    assert not tried.drivers.started


def test_the_list_of_applications_is_one_look_at_the_registry(tried: Tried) -> None:
    counts = []
    tried.http.get("/api/v1/applications")  # notes that the token is used
    for names in (["first"], [f"app{number}" for number in range(MANY)]):
        register_runs(tried, names)
        with statements(tried.state.database.engine) as made:
            listed = tried.http.get("/api/v1/applications").json()
        counts.append(len(made))
    assert len(listed) == MANY + 1
    assert {one["state"] for one in listed} == {"running"}
    assert counts[0] == counts[1]
    assert listed[0] == tried.http.get(f"/api/v1/applications/{listed[0]['name']}").json()


def test_all_is_started_and_closed_as_before(database: Database, tmp_path: Path) -> None:
    """In either database: what died is found, what should run is started, what is over is closed."""
    names = [f"app{number}" for number in range(3)]
    register(database, names)
    folder = ServiceHome(Home.at(tmp_path / "home"))
    drivers = Drivers(folder)
    with log_to_file(tmp_path / "log", "service") as log:
        supervise = Supervise(database, folder, drivers, log)
        supervise.turn()
        assert sorted(drivers.alive.values()) == names
        job = drivers.started[0]
        found = JobPlan.read(folder.driver("app0").plan_file)
        assert found is not None
        assert (found.job, list(found.plan)) == (job.id, ["stages"])
        drivers.alive.clear()
        supervise.turn()
        supervise.turn()
        assert sorted(drivers.alive.values()) == names
        assert len(drivers.started) == 6


def test_files_that_have_not_changed_are_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ServiceHome(Home.at(tmp_path / "home"))
    actuals, reads = Actuals(folder), 0
    read = Job.read.__func__  # type: ignore[attr-defined]

    def counting(cls: type[Job], path: Path) -> Job | None:
        nonlocal reads
        reads += 1
        found: Job | None = read(cls, path)
        return found

    monkeypatch.setattr(Job, "read", classmethod(counting))
    assert actuals.of("app").job is None
    Job(id="1", version=1, asked=0.0).write(folder.driver("app").job_file)
    actuals = Actuals(folder)
    for _ in range(3):
        found = actuals.of("app").job
        assert found is not None
        assert found.id == "1"
    assert reads == 1
    Job(id="2", version=2, asked=0.0).write(folder.driver("app").job_file)
    found = actuals.of("app").job
    assert found is not None
    assert found.id == "2"
    actuals.keep(())
    assert actuals.of("app").job == found
    assert reads == 3
