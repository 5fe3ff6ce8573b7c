"""Commands that look at applications: of a service, or of a home that has none."""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from functools import partial
from typing import Annotated

import typer
from rich.table import Table

from braid.cli import local
from braid.cli.consoles import print_table
from braid.cli.data import HomeOption
from braid.cli.interrupts import Interrupted, interruptible
from braid.cli.remote import (
    BeforeOption,
    ServerOption,
    SinceOption,
    found_service,
    seconds,
    service,
    service_of,
    when,
)
from braid.cli.running import print_status
from braid.client.models import EventInfo
from braid.home.status import Status

NameArgument = Annotated[str, typer.Argument(help="An application.", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (apps, app_, logs, events):
        app.command(command.__name__.rstrip("_"))(command)


def apps(
    home: HomeOption = None,
    server: ServerOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List deployed applications; without a service, those that have run in the home."""
    with found_service(home, server) or nullcontext() as client:
        found = local.applications(home) if client is None else client.applications()
    if as_json:
        typer.echo(json.dumps([one.model_dump(mode="json") for one in found], indent=2))
        return
    table = Table("application", "state", "version", "since", "restarts", "what is wrong")
    for one in found:
        version = "" if one.version is None else str(one.version)
        if one.running_version not in (None, one.version):
            version = f"{one.running_version} -> {version}"
        if one.waiting is not None:
            version += f" ({one.waiting} waits)"
        table.add_row(
            one.name, one.state, version, when(one.started), str(one.restarts or ""), one.error or ""
        )
    print_table(table)


def app_(
    name: NameArgument,
    home: HomeOption = None,
    server: ServerOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show an application: what it should be doing, what it is doing, and its stages."""
    with service_of(name, home, server) or nullcontext() as client:
        found = local.application(name, home) if client is None else client.application(name)
    if as_json:
        typer.echo(found.model_dump_json(indent=2))
        return
    version = found.running_version or found.version
    doing = found.state if found.phase is None else f"{found.state} ({found.phase})"
    typer.echo(f"{name}: {doing}" + ("" if version is None else f", version {version}"))
    if found.running_version not in (None, found.version):
        typer.echo(f"version {found.version} is to take its place")
    if found.waiting is not None:
        typer.echo(f"version {found.waiting} waits for approval")
    if found.pid is not None:
        typer.echo(f"process {found.pid}, since {when(found.started) or 'just now'}")
    if found.restarts:
        typer.echo(f"failed {found.restarts} times within half an hour")
    if found.error is not None:
        again = when(found.next_start)
        typer.echo(f"failed: {found.error}" + (f"; it is started again at {again}" if again else ""))
    if found.status is not None:
        print_status([Status.model_validate(found.status)])


def logs(
    name: NameArgument,
    follow_: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes.")] = False,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=1, max=5000, help="How many lines of what was.")
    ] = 50,
    home: HomeOption = None,
    server: ServerOption = None,
) -> None:
    """Show what has happened to the queries of an application, as JSON lines."""
    with service_of(name, home, server) or nullcontext() as client, interruptible():
        read = partial(local.logs, home=home) if client is None else client.logs
        try:
            found = read(name, lines=lines)
            while True:
                for line in found.lines:
                    typer.echo(line)
                if not follow_:
                    return
                time.sleep(1.0)
                found = read(name, after=found.next)
        except Interrupted:
            return


def events(
    name: Annotated[
        str | None, typer.Argument(help="Only those of an application.", show_default=False)
    ] = None,
    follow_: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes.")] = False,
    kind: Annotated[
        str | None, typer.Option(help="Only those of a kind, as `failed`.", show_default=False)
    ] = None,
    since: SinceOption = None,
    before: BeforeOption = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many of what was.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, an event on each line.")] = False,
    home: HomeOption = None,
    server: ServerOption = None,
) -> None:
    """Show what has happened, oldest first: versions, starts, failures. A service keeps these."""
    begin = seconds(since)
    with (
        service(home, server, "`braid logs` tells what has happened to the queries of one") as client,
        interruptible(),
    ):
        try:
            found, last = client.events(name, limit=limit, kind=kind, since=begin, before=before), 0
            while True:
                for one in found:
                    typer.echo(one.model_dump_json() if as_json else _line(one))
                    last = one.id
                if not follow_:
                    return
                time.sleep(1.0)
                found = client.events(name, last, kind=kind, since=begin)
        except Interrupted:
            return


def _line(event: EventInfo) -> str:
    return f"{event.id:>6}  {when(event.at)}  {event.application or '':20}  {event.kind:10}  {event.text}"
