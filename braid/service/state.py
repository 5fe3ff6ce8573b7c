"""What endpoints work with: the registry, the home, and the loops."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from sqlalchemy.orm import Session

from braid.client.models import Role
from braid.home.paths import Home
from braid.home.service import ServiceHome
from braid.service.backends.base import Backend
from braid.service.categories import Categories
from braid.service.figures import ServiceFigures
from braid.service.identity import ANYBODY, Identity, identify, is_foreign, note_use
from braid.service.loops.base import Loop
from braid.service.loops.follow import Follow
from braid.service.loops.supervise import Supervise
from braid.service.parameters import ApplicationName
from braid.service.registry.database import Database
from braid.service.settings import Settings
from braid.service.trials import Trials

if TYPE_CHECKING:
    from braid.service.oidc import Issuer


@dataclass
class ServiceState:
    """The service, as its endpoints see it."""

    settings: Settings
    home: Home
    database: Database
    backend: Backend
    supervise: Supervise
    trials: Trials
    issuer: Issuer | None = None
    """Who knows people by other tokens than the service's own."""
    others: list[Loop] = field(default_factory=list)
    """Loops besides that."""
    follow: Follow | None = None
    """The one of them that follows a folder in Git, if any does."""
    started: float = field(default_factory=time.time)
    figures: ServiceFigures = field(init=False)
    categories: Categories = field(init=False)

    def __post_init__(self) -> None:
        self.figures = ServiceFigures(self.home)
        self.categories = Categories(self.home)

    @property
    def loops(self) -> list[Loop]:
        """All loops, in the order in which they begin."""
        return [self.supervise, *self.others]

    @property
    def is_well(self) -> bool:
        """Whether all loops run, and none has failed with its last turn."""
        return all(loop.is_alive and loop.trouble is None for loop in self.loops)

    @property
    def folder(self) -> ServiceHome:
        """Its folder."""
        return ServiceHome(self.home)

    @contextmanager
    def landing(self) -> Iterator[Session]:
        """A transaction after which something else may have to run."""
        with self.database.transaction() as session:
            yield session
        self.supervise.hurry()


def _state(request: Request) -> ServiceState:
    found = request.app.state.service
    assert isinstance(found, ServiceState)
    return found


State = Annotated[ServiceState, Depends(_state)]
_bearer = HTTPBearer(auto_error=False, description="A token: `braid tokens make` makes one.")


def _identity(
    request: Request,
    state: State,
    given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
) -> Identity:
    source = "unknown" if request.client is None else request.client.host
    if state.settings.auth == "none":
        return replace(ANYBODY, source=source)
    secret, now = None if given is None else given.credentials, time.time()
    if state.issuer is not None and secret is not None and is_foreign(secret):
        return state.issuer.identify(secret, source)
    with state.database.reading() as session:
        who = identify(session, secret, now, source)
    if who.unnoted is not None:
        with state.database.transaction() as session:
            note_use(session, who, now)
    return who


Who = Annotated[Identity, Depends(_identity)]


def _needs(role: Role) -> object:
    def checked(who: Who) -> Identity:
        who.need(role)
        return who

    return Depends(checked)


def _needs_for_application(role: Role) -> object:
    def checked(who: Who, name: ApplicationName) -> Identity:
        who.need(role)
        who.need_application(name)
        return who

    return Depends(checked)


Viewer = Annotated[Identity, _needs(Role.VIEWER)]
Editor = Annotated[Identity, _needs(Role.EDITOR)]
Approver = Annotated[Identity, _needs(Role.APPROVER)]
Admin = Annotated[Identity, _needs(Role.ADMIN)]

ApplicationEditor = Annotated[Identity, _needs_for_application(Role.EDITOR)]
"""Of the application that the path names."""
ApplicationApprover = Annotated[Identity, _needs_for_application(Role.APPROVER)]
