"""Applications, their versions, and what is deployed."""

from __future__ import annotations

import time

from fastapi import APIRouter, Query

from braid import api
from braid.client.models import (
    ApplicationInfo,
    Approval,
    Deleted,
    Deploy,
    Desired,
    LogLines,
    PlanInfo,
    Program,
    Role,
    Rollback,
    VersionInfo,
)
from braid.plan.serialise import loads
from braid.service import landing
from braid.service.applications import application_info, application_infos
from braid.service.deleting import delete_application
from braid.service.identity import Identity
from braid.service.logs import read_log
from braid.service.planning import Planned, plan_program, planned
from braid.service.state import ApplicationApprover, ApplicationEditor, Editor, State, Viewer

router = APIRouter(tags=["applications"])


@router.post("/plans")
def plan(state: State, who: Viewer, asked: Program) -> PlanInfo:
    """What deploying a program would do, without doing anything.

    Whoever may neither see rows nor deploy is not told of a trial: what filters let pass tells of rows.
    """
    return _planned(state, asked, create=True, tries=who.rows or who.role.may(Role.EDITOR)).info


@router.post("/deployments", status_code=201)
def deploy(state: State, who: Editor, asked: Deploy) -> VersionInfo:
    """Land a program: a version of its application is made, and runs unless it has to be approved."""
    found = _planned(state, asked, create=asked.create, tries=False)
    found.check(asked)
    found = state.trials.tried(found)
    with state.landing() as session:
        version = landing.land(
            session, state.home, found, asked, who, time.time(), review=state.settings.review == "required"
        )
        return landing.version_info(version)


@router.get("/applications")
def applications(state: State, who: Viewer) -> list[ApplicationInfo]:
    """All applications, by name."""
    with state.database.reading() as session:
        return application_infos(session, state, time.time())


@router.get("/applications/{name}")
def application(state: State, who: Viewer, name: str) -> ApplicationInfo:
    """An application, with the metrics of its stages."""
    with state.database.reading() as session:
        found = landing.application_of(session, name)
        return application_info(session, state, found, time.time(), whole=True)


@router.delete("/applications/{name}")
def delete(
    state: State,
    who: ApplicationEditor,
    name: str,
    keep_data: bool = Query(False, description="Whether to keep all that it has stored."),
    dry_run: bool = Query(False, description="Only say what would go."),
) -> Deleted:
    """Delete a stopped application, with what it has stored."""
    return delete_application(state, name, who, time.time(), keep_data=keep_data, dry_run=dry_run)


@router.post("/applications/{name}/start")
def start(state: State, who: ApplicationEditor, name: str) -> ApplicationInfo:
    """Have an application run; one that has failed is started at once."""
    return _want(state, who, name, Desired.RUNNING)


@router.post("/applications/{name}/stop")
def stop(state: State, who: ApplicationEditor, name: str) -> ApplicationInfo:
    """Have an application stopped, in good order."""
    return _want(state, who, name, Desired.STOPPED)


@router.post("/applications/{name}/restart")
def restart(state: State, who: ApplicationEditor, name: str) -> ApplicationInfo:
    """Have an application stopped and started again."""
    return _want(state, who, name, Desired.RUNNING, again=True)


@router.post("/applications/{name}/rollback", status_code=201)
def rollback(state: State, who: ApplicationEditor, name: str, asked: Rollback) -> VersionInfo:
    """Land the program of an earlier version again; that is an update like any other."""
    with state.database.reading() as session:
        text, again = landing.rolled_back(session, name, asked)
        found = planned(state.home, loads(text), again, landing.landed(session))
    found = state.trials.tried(found)
    with state.landing() as session:
        version = landing.land(
            session, state.home, found, again, who, time.time(), review=state.settings.review == "required"
        )
        return landing.version_info(version)


@router.get("/applications/{name}/versions")
def versions(state: State, who: Viewer, name: str) -> list[VersionInfo]:
    """The versions of an application, oldest first."""
    with state.database.reading() as session:
        landing.application_of(session, name)
        return [landing.version_info(one) for one in landing.versions(session, name)]


@router.get("/applications/{name}/versions/{number}")
def version(state: State, who: Viewer, name: str, number: int) -> VersionInfo:
    """A version, with its program."""
    with state.database.reading() as session:
        return landing.version_info(landing.version_of(session, name, number), whole=True)


@router.post("/applications/{name}/versions/{number}/approve")
def approve(state: State, who: ApplicationApprover, name: str, number: int, asked: Approval) -> VersionInfo:
    """Approve a version that waits; it is void if what runs has changed since it was made."""
    with state.landing() as session:
        waiting = landing.version_of(session, name, number)
        present = planned(
            state.home,
            landing.plan_of(waiting),
            landing.program_of(waiting),
            landing.landed(session),
            create=waiting.create,
        ).info.hash
        found = landing.approve(session, name, number, asked.hash, present, who, time.time())
        return landing.version_info(found)


@router.get("/applications/{name}/logs")
def logs(
    state: State,
    who: Viewer,
    name: str,
    after: int | None = Query(
        None, ge=0, description="Where to go on reading; the last lines if it is not given."
    ),
    lines: int = Query(200, ge=1, le=5000),
) -> LogLines:
    """What has happened to an application's queries, as JSON lines."""
    with state.database.reading() as session:
        landing.application_of(session, name)
    return read_log(state.home.application(name).log_file, after, lines)


@router.post("/applications/{name}/rescale")
def rescale(
    state: State,
    who: ApplicationEditor,
    name: str,
    shards: int | None = Query(None, ge=1),
    partitions: int | None = Query(None, ge=1),
) -> dict[str, float]:
    """Give the stateful stages of a running application other shards and state partitions."""
    return api.rescale(name, state.home, shards=shards, partitions=partitions)


def _planned(state: State, asked: Program, *, create: bool, tries: bool) -> Planned:
    with state.database.reading() as session:
        found = plan_program(state.home, asked, landing.landed(session), create=create)
    return state.trials.tried(found) if tries else found


def _want(
    state: State, who: Identity, name: str, desired: Desired, *, again: bool = False
) -> ApplicationInfo:
    with state.landing() as session:
        found = landing.want(session, name, desired, who, time.time(), again=again)
        return application_info(session, state, found, time.time())
