"""What commands say of versions that have landed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import typer
from rich.table import Table

from braid.cli.consoles import print_table
from braid.cli.remote import when
from braid.client.models import ApplicationInfo, Rollback, VersionInfo, VersionState
from braid.core.errors import RunError

if TYPE_CHECKING:
    from braid.client.http import Client

LOOK_SECONDS = 0.25
_PATIENCE = 600.0
"""Seconds that commands wait for a version to run."""


def follow(client: Client, name: str, version: VersionInfo, wait: bool) -> None:
    """Say what becomes of a version that has landed."""
    if version.state is VersionState.WAITING:
        typer.echo(
            f"{name}: version {version.number} waits for approval: "
            f"braid approve {name} {version.number} {version.hash[:12]}"
        )
        return
    typer.echo(f"{name}: version {version.number} has landed")
    if wait:
        info = until_running(client, name, version.number)
        process = "" if info.pid is None else f", process {info.pid}"
        typer.echo(f"{name}: version {version.number} is running{process}")


def until_running(client: Client, name: str, version: int) -> ApplicationInfo:
    """Wait until a version runs; raises what it fails with."""
    end, said = time.monotonic() + _PATIENCE, ""
    while time.monotonic() < end:
        info = client.application(name)
        if info.state == "running" and info.running_version == version:
            return info
        if info.version != version:
            raise RunError(f"version {info.version} of {name!r} has taken its place")
        if info.error is not None and info.state in ("failed", "stopped"):
            raise RunError(
                f"version {version} of {name!r} does not run: {info.error}", hint=f"braid logs {name}"
            )
        if info.state != said:
            said = info.state
            typer.echo(f"{name}: {said}", err=True)
        time.sleep(LOOK_SECONDS)
    raise RunError(
        f"version {version} of {name!r} does not run after {_PATIENCE:g} s", hint=f"braid app {name}"
    )


def roll_back(
    client: Client, name: str, version: int | None, *, yes: bool, discard: bool, remove: bool
) -> None:
    """Land an earlier version again."""
    asked = Rollback(version=version, replay=yes, discard=discard, remove=remove)
    follow(client, name, client.rollback(name, asked), wait=True)


def show_versions(client: Client, name: str) -> None:
    """List the versions that were deployed."""
    table = Table("version", "state", "deployed", "author", "update", "changes", "plan")
    for one in client.versions(name):
        changes = "\n".join(one.changes)
        author = one.author if one.approved_by is None else f"{one.author}, {one.approved_by}"
        table.add_row(
            str(one.number), one.state, when(one.created), author, one.verdict or "", changes, one.hash[:12]
        )
    print_table(table)
