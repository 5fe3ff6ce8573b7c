"""The service itself: whether it is well, who may use it, and what has happened."""

from __future__ import annotations

import time

from fastapi import APIRouter, Query
from sqlalchemy import func, select

from braid import __version__
from braid.client.models import AuditInfo, EventInfo, Health, NewToken, Service, TokenInfo, WhoAmI
from braid.log.layout import MAX_NAME
from braid.service import identity, records
from braid.service.parameters import KNOWN, MOST_EVENTS, NAME, WITH_BODY, TokenNumber, problems
from braid.service.registry.tables import Application
from braid.service.state import Admin, State, Viewer

router = APIRouter(tags=["service"])


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
    after: int = Query(
        0, ge=0, le=MOST_EVENTS, description="Only those after this number; the last ones if it is 0."
    ),
    limit: int = Query(100, ge=1, le=1000, description="How many at most."),
) -> list[EventInfo]:
    """What has happened, oldest first."""
    with state.database.reading() as session:
        return records.events(session, application, after, limit)


@router.get("/audit", responses=KNOWN | problems(403, 422))
def audit(
    state: State, who: Admin, limit: int = Query(100, ge=1, le=1000, description="How many at most.")
) -> list[AuditInfo]:
    """Who has changed what, newest first."""
    with state.database.reading() as session:
        return records.audit(session, limit)


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
