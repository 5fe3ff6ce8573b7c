"""How commands reach the service: that of the home, or the one they are told."""

from __future__ import annotations

from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from braid.cli.data import moment
from braid.core.errors import ConfigError
from braid.home.paths import Home

if TYPE_CHECKING:
    from braid.client.http import Client

ServerOption = Annotated[
    str | None,
    typer.Option(
        "--server",
        help="Address of the service, with a token in $BRAID_TOKEN or a login; by default that of the home.",
        envvar="BRAID_SERVER",
        show_default=False,
    ),
]

SinceOption = Annotated[
    str | None,
    typer.Option(
        help="Only since then: a time such as 2026-11-18T09:30, in UTC unless it says otherwise, or a "
        "duration such as '10 minutes' before now.",
        show_default=False,
    ),
]
BeforeOption = Annotated[
    int | None, typer.Option(min=1, help="Only those before this number, to go back.", show_default=False)
]


def found_service(home: Path | None, server: str | None) -> Client | None:
    """The service, if there is one; else commands look at the home, and say so if it has had one."""
    from braid.client.http import service_of, why_no_service

    found = service_of(home, server)
    why = why_no_service(home) if found is None else None
    if why is not None:
        typer.echo(f"{why}; what follows is what the home says", err=True)
    return found


def service(home: Path | None, server: str | None, instead: str | None = None) -> Client:
    """The service; `ConfigError` if there is none.

    Parameters
    ----------
    home, server
        Of which home, or where.
    instead
        What does something of the kind without one.
    """
    from braid.client.http import service_of, why_no_service

    found = service_of(home, server)
    if found is None:
        hint = "start one with `braid serve`, or name another with --server"
        raise ConfigError(
            why_no_service(home) or "no service is running for this home",
            where=str(Home.at(home).root),
            hint=hint if instead is None else f"{hint}; without one, {instead}",
        )
    return found


def service_of(application: str, home: Path | None, server: str | None) -> Client | None:
    """The service, if an application is deployed to it; one that was named is asked in any case."""
    from braid.client.http import AnswerError

    client = found_service(home, server)
    if client is None or server is not None:
        return client
    try:
        client.application(application)
    except AnswerError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return None
    return client


def when(at: float | None) -> str:
    """A moment in words."""
    return "" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def seconds(since: str | None) -> float | None:
    """Seconds since 1970 of what `--since` says."""
    return None if since is None else moment(since) / 1e6
