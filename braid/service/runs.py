"""Starts in the registry, as decisions see them: one query for however many applications."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from braid.home.service import Domain
from braid.service.decide.backoff import Run
from braid.service.registry.tables import Application, Start

KEPT_RUNS = 50
"""Runs that backoff goes by; it forgets those before a healthy one."""


def open_starts(session: Session, jobs: Collection[str]) -> dict[str, int]:
    """Those of some jobs that the registry does not know the end of, with the `restart` they are for."""
    if not jobs:
        return {}
    query = select(Start.job, Start.restart).where(Start.job.in_(jobs), Start.ended.is_(None))
    return {one.job: one.restart for one in session.execute(query)}


def ended_runs(session: Session, applications: Collection[str]) -> dict[str, list[Run]]:
    """Ended runs of what should run, since somebody last asked for a start, oldest first."""
    found: dict[str, list[Run]] = defaultdict(list)
    if not applications:
        return found
    newest = func.row_number().over(partition_by=Start.application, order_by=Start.at.desc())
    numbered = (
        select(Start.application, Start.at, Start.ended, Start.failed, Start.domain, newest.label("newest"))
        .join(
            Application,
            (Application.name == Start.application)
            & (Application.version == Start.version)
            & (Application.restart == Start.restart),
        )
        .where(Start.application.in_(applications), Start.ended.is_not(None))
        .subquery()
    )
    query = select(numbered).where(numbered.c.newest <= KEPT_RUNS).order_by(numbered.c.newest.desc())
    for name, at, ended, failed, domain, _ in session.execute(query):
        found[name].append(run_of(at, ended, failed, domain))
    return found


def run_of(at: float, ended: float | None, failed: bool, domain: str | None) -> Run:
    """A start, as decisions see it."""
    return Run(at=at, ended=ended, failed=failed, domain=None if domain is None else Domain(domain))
