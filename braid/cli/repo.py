"""Commands about the folder in Git that the service follows."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from braid.cli.consoles import print_table
from braid.cli.data import HomeOption
from braid.cli.remote import ServerOption, service, when
from braid.client.repo import RepoInfo

repo = typer.Typer(help="The folder in Git that the service follows.", invoke_without_command=True)
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    repo.callback()(show)
    repo.command("look")(look)
    repo.command("sync")(sync)
    app.add_typer(repo, name="repo")


def show(
    context: typer.Context, home: HomeOption = None, server: ServerOption = None, as_json: JsonOption = False
) -> None:
    """Show the folder in Git that the service follows, and how its files stand."""
    if context.invoked_subcommand is None:
        with service(home, server) as client:
            _print(client.repo(), as_json)


def look(home: HomeOption = None, server: ServerOption = None, as_json: JsonOption = False) -> None:
    """Look at the repository now, rather than soon, and apply what may be applied."""
    with service(home, server) as client:
        _print(client.look(), as_json)


def sync(
    name: Annotated[str, typer.Argument(help="An application.", show_default=False)],
    home: HomeOption = None,
    server: ServerOption = None,
) -> None:
    """Apply what the folder says of an application, whatever was done to it by hand."""
    with service(home, server) as client:
        found = client.sync(name)
    typer.echo(f"{name}: {found.problem or f'version {found.version} is what {found.path} says'}")


def _print(info: RepoInfo, as_json: bool) -> None:
    if as_json:
        typer.echo(info.model_dump_json(indent=2))
        return
    seen = f"commit {info.commit[:12]}" if info.commit else "not seen yet"
    looked = f", seen {when(info.looked)}" if info.looked else ""
    typer.echo(f"{info.repo}, branch {info.branch or 'HEAD'}, folder {info.folder or '.'}: {seen}{looked}")
    if info.trouble is not None:
        typer.echo(f"trouble: {info.trouble}")
    table = Table("file", "application", "state", "version", "commit", "what is wrong")
    for one in info.files:
        wrong = "\n".join(text for text in (one.problem, one.hint) if text)
        version = "" if one.version is None else str(one.version)
        table.add_row(one.path, one.application or "", one.state, version, (one.commit or "")[:12], wrong)
    print_table(table)
