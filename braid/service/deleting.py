"""Deletes applications: from the home, then from the registry."""

from __future__ import annotations

import shutil

from sqlalchemy import select

from braid import api
from braid.client.models import Deleted, Desired
from braid.service import landing
from braid.service.errors import ConflictError
from braid.service.identity import Identity
from braid.service.records import changed, happened
from braid.service.registry.tables import Start
from braid.service.state import ServiceState


def delete_application(
    state: ServiceState, name: str, who: Identity, now: float, *, keep_data: bool, dry_run: bool
) -> Deleted:
    """Delete a stopped application with what it has stored, or only say what would go."""
    with state.database.transaction() as session:
        application = landing.application_of(session, name, lock=True)
        runs = session.scalar(select(Start.job).where(Start.application == name, Start.ended.is_(None)))
        if application.desired == Desired.RUNNING or runs is not None:
            raise ConflictError(
                f"application {name!r} is not stopped", hint=f"stop it first: braid stop {name}"
            )
        if not dry_run:
            # Nobody starts it from here on, and if this is cut short, it can be deleted once more.
            application.desired = Desired.DELETED
    ran = state.home.application(name).root.exists()
    found = api.drop_application(name, state.home, keep_data=keep_data, dry_run=dry_run) if ran else None
    told = Deleted(
        removed=[f"application {name}"] if found is None else found.removed,
        kept=[] if found is None else list(found.kept),
    )
    if dry_run:
        return told
    with state.database.transaction() as session:
        gone = landing.application_of(session, name, lock=True)
        happened(session, now, name, "deleted", f"deleted by {who.name}", **told.model_dump())
        changed(session, now, who, "delete", name, {"version": gone.version}, None)
        session.delete(gone)
    shutil.rmtree(state.folder.driver(name).root, ignore_errors=True)
    return told
