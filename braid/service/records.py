"""Events and audit: what has happened, and who has changed what."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from braid.client.models import AuditInfo, EventInfo
from braid.service.identity import Identity
from braid.service.registry.tables import Audit, Event


def happened(
    session: Session, now: float, application: str | None, kind: str, text: str, **data: Any
) -> None:
    """Write an event down."""
    session.add(Event(at=now, application=application, kind=kind, text=text, data=data))


def changed(
    session: Session,
    now: float,
    who: Identity,
    action: str,
    target: str,
    before: Any = None,
    after: Any = None,
) -> None:
    """Write down who has changed what."""
    audit = Audit(
        at=now, who=who.name, source=who.source, action=action, target=target, before=before, after=after
    )
    session.add(audit)


def events(
    session: Session,
    limit: int,
    *,
    application: str | None = None,
    kind: str | None = None,
    since: float | None = None,
    after: int = 0,
    before: int | None = None,
) -> list[EventInfo]:
    """Events, oldest first: those after a number, or else the last ones, before another number."""
    query = select(Event).where(Event.id > after)
    if application is not None:
        query = query.where(Event.application == application)
    if kind is not None:
        query = query.where(Event.kind == kind)
    if since is not None:
        query = query.where(Event.at >= since)
    if before is not None:
        query = query.where(Event.id < before)
    found = session.scalars(query.order_by(Event.id if after else Event.id.desc()).limit(limit)).all()
    return [
        EventInfo(
            id=one.id, at=one.at, application=one.application, kind=one.kind, text=one.text, data=one.data
        )
        for one in (found if after else reversed(found))
    ]


def audit(
    session: Session,
    limit: int,
    *,
    who: str | None = None,
    target: str | None = None,
    action: str | None = None,
    since: float | None = None,
    before: int | None = None,
) -> list[AuditInfo]:
    """The last changes, newest first: those before a number, if it is given."""
    query = select(Audit)
    for column, wanted in ((Audit.who, who), (Audit.target, target), (Audit.action, action)):
        if wanted is not None:
            query = query.where(column == wanted)
    if since is not None:
        query = query.where(Audit.at >= since)
    if before is not None:
        query = query.where(Audit.id < before)
    found = session.scalars(query.order_by(Audit.id.desc()).limit(limit))
    return [
        AuditInfo(
            id=one.id,
            at=one.at,
            who=one.who,
            source=one.source,
            action=one.action,
            target=one.target,
            before=one.before,
            after=one.after,
        )
        for one in found
    ]
