"""Commands that change applications: deploy them, start, stop and delete them."""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

from braid import api
from braid.cli import local
from braid.cli.data import HomeOption
from braid.cli.interrupts import Interrupted, interruptible
from braid.cli.landed import LOOK_SECONDS, follow, until_running
from braid.cli.looking import NameArgument
from braid.cli.remote import ServerOption, service, service_of
from braid.cli.running import DiscardOption, RemoveOption, SetOption, pairs
from braid.cli.trials import trial_words
from braid.client.models import Deleted, Deploy, PlanInfo, Program
from braid.core.errors import BraidError, ConfigError, RunError
from braid.home.service import Resources

if TYPE_CHECKING:
    from braid.client.http import Client

_RUN = "`braid run` runs a program here, in the foreground"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (deploy, start, stop, restart, approve, delete):
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
    with service(home, server, _RUN) as client, interruptible():
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


def start(name: NameArgument, home: HomeOption = None, server: ServerOption = None) -> None:
    """Have a deployed application run; one that has failed is started at once."""
    _wanted(service(home, server, _RUN), name, "start")


def stop(name: NameArgument, home: HomeOption = None, server: ServerOption = None) -> None:
    """Have an application end after its micro-batches; `braid start` lets one that is deployed go on.

    Without a service, the process that runs it is asked to end, such as a `braid run` in another terminal.
    """
    client = service_of(name, home, server)
    if client is not None:
        _wanted(client, name, "stop")
        return
    with interruptible():
        try:
            api.stop(name, home)
        except Interrupted as interrupt:
            typer.echo("it was asked to end, and does so when it can", err=True)
            raise typer.Exit(interrupt.code) from None
    if local.is_deployed(name, home):
        typer.echo("it is deployed: the next `braid serve` starts it again", err=True)
    typer.echo(f"{name}: stopped")


def restart(name: NameArgument, home: HomeOption = None, server: ServerOption = None) -> None:
    """Have a deployed application stopped and started again."""
    _wanted(service(home, server, _RUN), name, "restart")


def _wanted(asked: Client, name: str, action: str) -> None:
    """Ask a service for it, and wait until it is done."""
    with asked as client, interruptible():
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
    """Delete an application that is stopped; says first what goes with it."""
    with service_of(name, home, server) or nullcontext() as client:

        def delete_(*, dry_run: bool) -> Deleted:
            if client is None:
                return local.delete(name, home, keep_data=keep_data, dry_run=dry_run)
            return client.delete(name, keep_data=keep_data, dry_run=dry_run)

        found = delete_(dry_run=True)
        for what in found.removed:
            typer.echo(f"removes {what}", err=True)
        for what in found.kept:
            typer.echo(f"keeps {what}", err=True)
        if not yes and not (sys.stdin.isatty() and typer.confirm("Delete it?", err=True)):
            raise RunError("nobody has agreed", hint="agree with --yes")
        delete_(dry_run=False)
    typer.echo(f"{name}: deleted")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise BraidError(f"cannot read the file: {error.strerror}", where=str(path)) from None
    except UnicodeDecodeError as error:
        raise BraidError(f"the file is not UTF-8: {error.reason}", where=str(path)) from None
