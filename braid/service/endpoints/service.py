"""The service itself: whether it is well, who may use it, and what has happened."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Query, Request
from sqlalchemy import func, select

from braid import __version__
from braid.client.discovery import RESOURCE, Resource
from braid.client.models import AuditInfo, EventInfo, Health, NewToken, Service, TokenInfo, WhoAmI
from braid.log.layout import MAX_NAME
from braid.service import identity, records
from braid.service.errors import NotFoundError
from braid.service.parameters import (
    KNOWN,
    MOST_EVENTS,
    NAME,
    WITH_BODY,
    Earlier,
    Moment,
    Printed,
    TokenNumber,
    problems,
)
from braid.service.registry.tables import Application
from braid.service.state import Admin, State, Viewer

router = APIRouter(tags=["service"])
unversioned = APIRouter()


@router.get("/health")
def health(state: State) -> Health:
    """Whether it answers, and its loops run; for this nobody needs a token."""
    return Health(well=state.is_well)


@router.get("/service", responses=KNOWN)
def service(state: State, who: Viewer) -> Service:
    """What it is."""
    with state.database.reading() as session:
        count = session.scalar(select(func.count()).select_from(Application)) or 0
    return Service(
        version=__version__,
        home=str(state.home.root),
        started=state.started,
        applications=count,
        review=state.settings.review,
        registry=state.database.engine.dialect.name,
    )


@router.get("/whoami", responses=KNOWN)
def whoami(who: Viewer) -> WhoAmI:
    """Who asks, and what they may do."""
    return identity.whoami(who)


@router.get("/events", responses=KNOWN | problems(422))
def events(
    state: State,
    who: Viewer,
    application: str | None = Query(
        None, pattern=NAME, max_length=MAX_NAME, description="Only those of an application."
    ),
    kind: Annotated[
        Printed | None, Query(description="Only those of a kind, such as `failed`.", examples=["failed"])
    ] = None,
    since: Moment = None,
    after: int = Query(
        0, ge=0, le=MOST_EVENTS, description="Only those after this number; the last ones if it is 0."
    ),
    before: Earlier = None,
    limit: int = Query(100, ge=1, le=1000, description="How many at most."),
) -> list[EventInfo]:
    """What has happened, oldest first."""
    with state.database.reading() as session:
        return records.events(
            session, limit, application=application, kind=kind, since=since, after=after, before=before
        )


@router.get("/audit", responses=KNOWN | problems(403, 422))
def audit(
    state: State,
    who: Admin,
    by: Annotated[
        Printed | None, Query(description="Only what somebody has changed.", examples=["ann"])
    ] = None,
    on: Annotated[
        Printed | None,
        Query(description="Only changes of an application or a token.", examples=["search_app"]),
    ] = None,
    action: Annotated[Printed | None, Query(description="Only such changes.", examples=["deploy"])] = None,
    since: Moment = None,
    before: Earlier = None,
    limit: int = Query(100, ge=1, le=1000, description="How many at most."),
) -> list[AuditInfo]:
    """Who has changed what, newest first."""
    with state.database.reading() as session:
        return records.audit(session, limit, who=by, target=on, action=action, since=since, before=before)


@router.get("/tokens", responses=KNOWN | problems(403))
def tokens(state: State, who: Admin) -> list[TokenInfo]:
    """All tokens, without their secrets."""
    with state.database.reading() as session:
        return identity.tokens(session)


@router.post("/tokens", status_code=201, responses=KNOWN | WITH_BODY | problems(403))
def make_token(state: State, who: Admin, asked: NewToken) -> TokenInfo:
    """Make a token; its secret is told once, here. Nobody gives a right to see rows that they have not."""
    if asked.rows:
        who.need_rows()
    with state.database.transaction() as session:
        made = identity.make_token(session, asked, time.time())
        after = made.model_dump(mode="json", exclude={"secret"})
        records.changed(session, time.time(), who, "make token", made.id, None, after)
        return made


@router.delete("/tokens/{number}", responses=KNOWN | problems(403, 404, 422))
def drop_token(state: State, who: Admin, number: TokenNumber) -> TokenInfo:
    """Let a token be valid no more."""
    with state.database.transaction() as session:
        dropped = identity.drop_token(session, number)
        records.changed(
            session, time.time(), who, "drop token", number, dropped.model_dump(mode="json"), None
        )
        return dropped


@unversioned.get(RESOURCE, include_in_schema=False)
def resource(request: Request, state: State) -> Resource:
    """Whose tokens it takes besides its own (RFC 9728): whoever logs in asks that first."""
    issuer, client = state.settings.oidc_issuer, state.settings.oidc_client
    if issuer is None or client is None:
        raise NotFoundError("the service takes no tokens but its own", hint="it has no `oidc_issuer`")
    return Resource(
        resource=str(request.base_url),
        authorization_servers=[issuer],
        client_id=client,
        scopes_supported=["openid", "profile", "email", "offline_access"],
    )
