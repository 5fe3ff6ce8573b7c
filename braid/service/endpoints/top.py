"""Figures of all applications: what they achieve, and what they use."""

from __future__ import annotations

import time
from collections.abc import Sequence

from fastapi import APIRouter

from braid.client.models import ApplicationInfo
from braid.home.top import Top
from braid.service.applications import application_infos
from braid.service.parameters import KNOWN
from braid.service.state import ServiceState, State, Viewer

router = APIRouter(tags=["applications"], responses=KNOWN)


@router.get("/top")
def top(state: State, who: Viewer) -> Top:
    """All applications with figures of the last minute, and what processes use; at most two seconds old."""
    return state.figures.top(lambda: _applications(state))


def _applications(state: ServiceState) -> Sequence[ApplicationInfo]:
    with state.database.reading() as session:
        return application_infos(session, state, time.time())
