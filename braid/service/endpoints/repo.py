"""The folder in Git that the service follows."""

from __future__ import annotations

from fastapi import APIRouter

from braid.client.repo import FileInfo, RepoInfo
from braid.service.errors import NotFoundError
from braid.service.loops.follow import Follow
from braid.service.parameters import KNOWN, ApplicationName, problems
from braid.service.state import ApplicationEditor, Editor, ServiceState, State, Viewer

router = APIRouter(tags=["repo"], prefix="/repo", responses=KNOWN)


@router.get("", responses=problems(404))
def repo(state: State, who: Viewer) -> RepoInfo:
    """What is followed, when it was seen last, and how its files stand."""
    return _follow(state).info()


@router.post("/look", responses=problems(403, 404))
def look(state: State, who: Editor) -> RepoInfo:
    """Look at the repository now, and apply what may be applied."""
    follow = _follow(state)
    follow.turn()
    return follow.info()


@router.post("/applications/{name}/sync", responses=problems(403, 404, 409, 422))
def sync(state: State, who: ApplicationEditor, name: ApplicationName) -> FileInfo:
    """Apply what the folder says of an application, whatever was done to it by hand."""
    return _follow(state).sync(name, who)


def _follow(state: ServiceState) -> Follow:
    if state.follow is None:
        raise NotFoundError("this service follows no folder in Git", hint="braid serve --repo DIR")
    return state.follow
