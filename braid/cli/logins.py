"""Commands about who one is to a service: login, logout, whoami."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from braid.cli.data import HomeOption
from braid.cli.interrupts import Interrupted, interruptible
from braid.cli.remote import ServerOption, service

if TYPE_CHECKING:
    from braid.client.login import Shown

NamedServer = Annotated[
    str, typer.Option("--server", help="Address of the service.", envvar="BRAID_SERVER", show_default=False)
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(login)
    app.command()(logout)
    app.command()(whoami)


def login(server: NamedServer) -> None:
    """Log in to a service by the account of one's organisation, in a browser on any device."""
    from braid.client.login import credentials_file, log_in

    with interruptible():
        try:
            log_in(server, _show)
        except Interrupted as interrupt:
            raise typer.Exit(interrupt.code) from None
    typer.echo(f"logged in to {server}; {credentials_file()} has it, until `braid logout`")


def logout(server: NamedServer) -> None:
    """Forget the login to a service."""
    from braid.client.login import log_out

    typer.echo(f"logged out of {server}" if log_out(server) else f"nobody was logged in to {server}")


def whoami(home: HomeOption = None, server: ServerOption = None) -> None:
    """Show who the service takes you for, and what you may do."""
    with service(home, server) as client:
        found = client.whoami()
    typer.echo(f"{found.name}, known by {found.by}, from {found.source}")
    typer.echo(f"role: {found.role}; rows: {'yes' if found.rows else 'no'}")
    typer.echo(f"applications: {', '.join(found.only) or 'all'}")


def _show(shown: Shown) -> None:
    typer.echo(f"{shown.issuer} asks: open {shown.url} and enter {shown.code}", err=True)
    if shown.complete is not None:
        typer.echo(f"or open {shown.complete}", err=True)
