"""Figures of the applications of a home, whoever runs them."""

from __future__ import annotations

from collections.abc import Iterator

from braid.home.figures import HomeFigures
from braid.home.paths import Home, HomeLike
from braid.home.status import read_status
from braid.home.top import Figures, Top
from braid.home.versions import newest


def top(home: HomeLike = None) -> Iterator[Top]:
    """What the applications of a home achieve and use, as of when the next value is asked for."""
    found = Home.existing(home)
    figures = HomeFigures(found)
    while True:
        known = []
        for application in found.applications():
            status = read_status(application)
            if status is not None:
                known.append(
                    Figures(
                        application=application.name,
                        state=status.state,
                        version=newest(application),
                        pid=status.pid if status.state.active else None,
                    )
                )
        yield figures.top(known)
