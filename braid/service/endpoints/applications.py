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
from braid.core.errors import RunError
from braid.home.log_lines import read_lines
from braid.log.layout import MAX_SHARDS
from braid.plan.serialise import loads
from braid.service import landing
from braid.service.applications import application_info, application_infos
from braid.service.deleting import delete_application
from braid.service.errors import ConflictError
from braid.service.identity import Identity
from braid.service.parameters import (
    KNOWN,
    MOST_EVENTS,
    WITH_BODY,
    ApplicationName,
    Responses,
    VersionNumber,
    problems,
)
from braid.service.planning import Planned, plan_program, planned
from braid.service.state import ApplicationApprover, ApplicationEditor, Editor, State, Viewer

_RESCALED: Responses = {
    200: {
        "description": "Seconds until each stage went on with its new shards.",
        "content": {"application/json": {"example": {"clicked": 1.4}}},
    }
}
router = APIRouter(tags=["applications"], responses=KNOWN)


@router.post("/plans", responses=WITH_BODY)
def plan(state: State, who: Viewer, asked: Program) -> PlanInfo:
    """What deploying a program would do, without doing anything.

    Whoever may neither see rows nor deploy is not told of a trial: what filters let pass tells of rows.
    """
    return _planned(state, asked, create=True, tries=who.rows or who.role.may(Role.EDITOR)).info


@router.post("/deployments", status_code=201, responses=WITH_BODY | problems(403, 409))
def deploy(state: State, who: Editor, asked: Deploy) -> VersionInfo:
    """Land a program: a version of its application is made, and runs unless it has to be approved."""
    found = _planned(state, asked, create=asked.create, tries=False)
    who.need_application(found.info.application)
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


@router.get("/applications/{name}", responses=problems(404, 422))
def application(state: State, who: Viewer, name: ApplicationName) -> ApplicationInfo:
    """An application, with the metrics of its stages."""
    with state.database.reading() as session:
        found = landing.application_of(session, name)
        return application_info(session, state, found, time.time(), whole=True)


@router.delete("/applications/{name}", responses=problems(403, 404, 409, 422))
def delete(
    state: State,
    who: ApplicationEditor,
    name: ApplicationName,
    keep_data: bool = Query(False, description="Whether to keep all that it has stored."),
    dry_run: bool = Query(False, description="Only say what would go."),
) -> Deleted:
    """Delete a stopped application, with what it has stored."""
    return delete_application(state, name, who, time.time(), keep_data=keep_data, dry_run=dry_run)


@router.post("/applications/{name}/start", responses=problems(403, 404, 409, 422))
def start(state: State, who: ApplicationEditor, name: ApplicationName) -> ApplicationInfo:
    """Have an application run; one that has failed is started at once."""
    return _want(state, who, name, Desired.RUNNING)


@router.post("/applications/{name}/stop", responses=problems(403, 404, 409, 422))
def stop(state: State, who: ApplicationEditor, name: ApplicationName) -> ApplicationInfo:
    """Have an application stopped, in good order."""
    return _want(state, who, name, Desired.STOPPED)


@router.post("/applications/{name}/restart", responses=problems(403, 404, 409, 422))
def restart(state: State, who: ApplicationEditor, name: ApplicationName) -> ApplicationInfo:
    """Have an application stopped and started again."""
    return _want(state, who, name, Desired.RUNNING, again=True)


@router.post("/applications/{name}/rollback", status_code=201, responses=WITH_BODY | problems(403, 404, 409))
def rollback(state: State, who: ApplicationEditor, name: ApplicationName, asked: Rollback) -> VersionInfo:
    """Land the program of an earlier version again; that is an update like any other."""
    with state.database.reading() as session:
        text, again = landing.rolled_back(session, name, asked)
        found = planned(
            state.home,
            loads(text),
            again,
            landing.landed(session),
            folders=state.settings.folders,
        )
    found = state.trials.tried(found)
    with state.landing() as session:
        version = landing.land(
            session, state.home, found, again, who, time.time(), review=state.settings.review == "required"
        )
        return landing.version_info(version)


@router.get("/applications/{name}/versions", responses=problems(404, 422))
def versions(state: State, who: Viewer, name: ApplicationName) -> list[VersionInfo]:
    """The versions of an application, oldest first."""
    with state.database.reading() as session:
        landing.application_of(session, name)
        return [landing.version_info(one) for one in landing.versions(session, name)]


@router.get("/applications/{name}/versions/{number}", responses=problems(404, 422))
def version(state: State, who: Viewer, name: ApplicationName, number: VersionNumber) -> VersionInfo:
    """A version, with its program."""
    with state.database.reading() as session:
        return landing.version_info(landing.version_of(session, name, number), whole=True)


@router.post("/applications/{name}/versions/{number}/approve", responses=WITH_BODY | problems(403, 404, 409))
def approve(
    state: State, who: ApplicationApprover, name: ApplicationName, number: VersionNumber, asked: Approval
) -> VersionInfo:
    """Approve a version that waits; it is void if what runs has changed since it was made."""
    with state.landing() as session:
        waiting = landing.version_of(session, name, number)
        present = planned(
            state.home,
            landing.plan_of(waiting),
            landing.program_of(waiting),
            landing.landed(session),
            create=waiting.create,
            folders=state.settings.folders,
        ).info.hash
        found = landing.approve(session, name, number, asked.hash, present, who, time.time())
        return landing.version_info(found)


@router.get("/applications/{name}/logs", responses=problems(404, 422))
def logs(
    state: State,
    who: Viewer,
    name: ApplicationName,
    after: int | None = Query(
        None, ge=0, le=MOST_EVENTS, description="Where to go on reading; the last lines if it is not given."
    ),
    lines: int = Query(200, ge=1, le=5000, description="How many at most."),
) -> LogLines:
    """What has happened to an application's queries, as JSON lines."""
    with state.database.reading() as session:
        landing.application_of(session, name)
    found = read_lines(state.home.application(name).log_file, after, lines)
    return LogLines(lines=found.lines, next=found.next)


@router.post("/applications/{name}/rescale", responses=_RESCALED | problems(403, 404, 409, 422))
def rescale(
    state: State,
    who: ApplicationEditor,
    name: ApplicationName,
    shards: int | None = Query(None, ge=1, le=MAX_SHARDS, description="Of each stage.", examples=[16]),
    partitions: int | None = Query(
        None, ge=1, le=MAX_SHARDS, description="Tasks of Spark that work on them.", examples=[4]
    ),
) -> dict[str, float]:
    """Give the stateful stages of a running application other shards and state partitions."""
    with state.database.reading() as session:
        landing.application_of(session, name)
    try:
        return api.rescale(name, state.home, shards=shards, partitions=partitions)
    except RunError as error:
        raise ConflictError(error.what, where=error.where, hint=error.hint) from None


def _planned(state: State, asked: Program, *, create: bool, tries: bool) -> Planned:
    with state.database.reading() as session:
        found = plan_program(
            state.home, asked, landing.landed(session), create=create, folders=state.settings.folders
        )
    return state.trials.tried(found) if tries else found


def _want(
    state: State, who: Identity, name: ApplicationName, desired: Desired, *, again: bool = False
) -> ApplicationInfo:
    with state.landing() as session:
        found = landing.want(session, name, desired, who, time.time(), again=again)
        return application_info(session, state, found, time.time())
