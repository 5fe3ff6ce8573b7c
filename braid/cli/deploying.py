"""Commands about deployed applications: deploy them, look at them, start, stop and delete them."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError
from rich.table import Table

from braid.cli.consoles import print_table
from braid.cli.data import HomeOption
from braid.cli.interrupts import Interrupted, interruptible
from braid.cli.landed import LOOK_SECONDS, follow, until_running
from braid.cli.remote import BeforeOption, ServerOption, SinceOption, seconds, service, when
from braid.cli.running import DiscardOption, RemoveOption, SetOption, pairs, print_status
from braid.cli.trials import trial_words
from braid.client.models import Deploy, EventInfo, PlanInfo, Program
from braid.core.errors import BraidError, ConfigError, RunError
from braid.home.service import Resources
from braid.home.status import Status

if TYPE_CHECKING:
    pass

NameArgument = Annotated[str, typer.Argument(help="An application.", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (deploy, apps, app_, start, stop, restart, approve, delete, logs, events):
        app.command(command.__name__.rstrip("_"))(command)


def deploy(
    program: Annotated[Path, typer.Argument(help="A PQL program.", show_default=False)],
    home: HomeOption = None,
    server: ServerOption = None,
    assignments: SetOption = None,
    cores: Annotated[
        int | None,
        typer.Option("--cores", min=1, help="Cores, of each executor on a cluster.", show_default=False),
    ] = None,
    memory: Annotated[
        str | None, typer.Option("--memory", help="Of Java: 512m, 2g.", show_default=False)
    ] = None,
    executors: Annotated[
        int | None, typer.Option("--executors", min=1, help="How many, on a cluster.", show_default=False)
    ] = None,
    pool: Annotated[
        str | None,
        typer.Option("--pool", help="Small applications of a pool share a driver.", show_default=False),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Agree to the plan, without being asked.")] = False,
    discard: DiscardOption = False,
    remove: RemoveOption = False,
    create: Annotated[
        bool, typer.Option("--create", help="Make input categories that are not there.")
    ] = False,
    plan_only: Annotated[bool, typer.Option("--plan", help="Only show the plan.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it runs.")] = True,
) -> None:
    """Land a program: a new application, or a new version of one. Shows the plan first, and asks."""
    text = _read(program)
    options = pairs(assignments, "--set")
    resources = _resources(cores=cores, memory=memory, executors=executors, pool=pool)
    with service(home, server) as client, interruptible():
        try:
            plan = client.plan(Program(program=text, options=options, resources=resources))
            _show(plan)
            if plan_only:
                return
            if not plan.new and not plan.changes:
                typer.echo(f"{plan.application}: nothing changes")
                return
            yes, discard, remove = _agreed(plan, yes, discard, remove)
            asked = Deploy(
                program=text,
                options=options,
                resources=resources,
                hash=plan.hash,
                replay=yes,
                discard=discard,
                remove=remove,
                create=create,
            )
            follow(client, plan.application, client.deploy(asked), wait)
        except Interrupted as interrupt:
            typer.echo("what has landed is carried out all the same", err=True)
            raise typer.Exit(interrupt.code) from None


def _resources(**asked: object) -> Resources:
    try:
        return Resources.model_validate(asked)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"--{first['loc'][0]} {first['input']}: {first['msg']}") from None


def _show(plan: PlanInfo) -> None:
    typer.echo(
        f"{plan.application}: {'a new application' if plan.new else f'an update, {plan.verdict}'}", err=True
    )
    for change in plan.changes:
        typer.echo(f"  {change.verdict:8}  {change.subject}: {change.detail} ({change.reason})", err=True)
    for text in plan.warnings:
        typer.echo(f"  {text}", err=True)
    for stage, rows in plan.in_flight.items():
        typer.echo(f"  {stage}: {rows:,} rows in flight are decided before their time", err=True)
    for what in plan.removes:
        typer.echo(f"  removes {what}", err=True)
    for line in trial_words(plan):
        typer.echo(f"  {line}", err=True)


def _agreed(plan: PlanInfo, yes: bool, discard: bool, remove: bool) -> tuple[bool, bool, bool]:
    """Ask a person at a terminal; without one, options must do."""
    if plan.is_refused or not sys.stdin.isatty():
        if not yes and not plan.is_refused:
            raise RunError("nobody has agreed to the plan", hint="agree to it with --yes")
        return yes, discard, remove
    if not (yes or typer.confirm("Carry out this plan?", err=True)):
        raise typer.Exit(1)
    discard = discard or (bool(plan.in_flight) and typer.confirm("Decide rows in flight now?", err=True))
    remove = remove or (bool(plan.removes) and typer.confirm("Remove these?", err=True))
    return True, discard, remove


def apps(
    home: HomeOption = None,
    server: ServerOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List deployed applications."""
    with service(home, server) as client:
        found = client.applications()
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
    """Show a deployed application: what it should be doing, what it is doing, and its stages."""
    with service(home, server) as client:
        found = client.application(name)
    if as_json:
        typer.echo(found.model_dump_json(indent=2))
        return
    typer.echo(f"{name}: {found.state}, version {found.running_version or found.version}")
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


def start(name: NameArgument, home: HomeOption = None, server: ServerOption = None) -> None:
    """Have a deployed application run; one that has failed is started at once."""
    _want(name, "start", home, server)


def stop(name: NameArgument, home: HomeOption = None, server: ServerOption = None) -> None:
    """Have a deployed application stopped, in good order; `braid start` lets it go on."""
    _want(name, "stop", home, server)


def restart(name: NameArgument, home: HomeOption = None, server: ServerOption = None) -> None:
    """Have a deployed application stopped and started again."""
    _want(name, "restart", home, server)


def _want(name: str, action: str, home: Path | None, server: str | None) -> None:
    with service(home, server) as client, interruptible():
        try:
            info = client.want(name, action)
            if action == "stop":
                while (info := client.application(name)).state == "stopping":
                    time.sleep(LOOK_SECONDS)
            elif info.version is not None:
                info = until_running(client, name, info.version)
        except Interrupted as interrupt:
            raise typer.Exit(interrupt.code) from None
    typer.echo(f"{name}: {info.state}")


def approve(
    name: NameArgument,
    number: Annotated[int, typer.Argument(metavar="VERSION", help="That waits.", show_default=False)],
    hash_: Annotated[
        str,
        typer.Argument(
            metavar="HASH", help="Of the plan, or its beginning: see `braid versions`.", show_default=False
        ),
    ],
    home: HomeOption = None,
    server: ServerOption = None,
) -> None:
    """Approve a version that somebody else has landed."""
    with service(home, server) as client:
        known = client.version(name, number).hash
        version = client.approve(
            name, number, known if len(hash_) >= 12 and known.startswith(hash_) else hash_
        )
    typer.echo(f"{name}: version {number} is {version.state}")


def delete(
    name: NameArgument,
    home: HomeOption = None,
    server: ServerOption = None,
    keep_data: Annotated[bool, typer.Option("--keep-data", help="Keep what it has stored.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete a deployed application that is stopped; says first what goes with it."""
    with service(home, server) as client:
        found = client.delete(name, keep_data=keep_data, dry_run=True)
        for what in found.removed:
            typer.echo(f"removes {what}", err=True)
        for what in found.kept:
            typer.echo(f"keeps {what}", err=True)
        if not yes and not (sys.stdin.isatty() and typer.confirm("Delete it?", err=True)):
            raise RunError("nobody has agreed", hint="agree with --yes")
        client.delete(name, keep_data=keep_data)
    typer.echo(f"{name}: deleted")


def logs(
    name: NameArgument,
    follow_: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes.")] = False,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=1, max=5000, help="How many lines of what was.")
    ] = 50,
    home: HomeOption = None,
    server: ServerOption = None,
) -> None:
    """Show what has happened to the queries of a deployed application, as JSON lines."""
    with service(home, server) as client, interruptible():
        try:
            found = client.logs(name, lines=lines)
            while True:
                for line in found.lines:
                    typer.echo(line)
                if not follow_:
                    return
                time.sleep(1.0)
                found = client.logs(name, found.next)
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
    """Show what has happened, oldest first: versions, starts, failures."""
    begin = seconds(since)
    with service(home, server) as client, interruptible():
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


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise BraidError(f"cannot read the file: {error.strerror}", where=str(path)) from None
    except UnicodeDecodeError as error:
        raise BraidError(f"the file is not UTF-8: {error.reason}", where=str(path)) from None
