"""Commands about the service itself: serve, tokens, audit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError
from rich.table import Table

from braid.cli.consoles import print_table
from braid.cli.data import HomeOption
from braid.cli.remote import BeforeOption, ServerOption, SinceOption, seconds, service, when
from braid.client.models import NewToken, Role
from braid.core.errors import ConfigError

if TYPE_CHECKING:
    from braid.service.state import ServiceState

_EXTRA = "install it with `pip install 'braid-streams[service]'`"
tokens = typer.Typer(help="Tokens of the service: list, make and drop them.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(serve)
    app.command()(halt)
    app.command()(audit)
    tokens.command("list")(list_tokens)
    tokens.command("make")(make_token)
    tokens.command("drop")(drop_token)
    app.add_typer(tokens, name="tokens")


def serve(
    home: HomeOption = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")] = None,
    port: Annotated[int | None, typer.Option(help="Port; 0 takes a free one.", show_default="7077")] = None,
    registry: Annotated[
        str | None,
        typer.Option(help="URL of the registry's database.", show_default="SQLite in the home"),
    ] = None,
    review: Annotated[
        str | None,
        typer.Option(help="none, or required: somebody else must approve a version.", show_default="none"),
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option(help="Where drivers run: local, standalone, kubernetes.", show_default="local"),
    ] = None,
    repo: Annotated[
        str | None,
        typer.Option(help="Repository of Git with a folder of programs to follow.", show_default=False),
    ] = None,
    branch: Annotated[
        str | None, typer.Option(help="Branch of it to follow.", show_default="its HEAD")
    ] = None,
    master: Annotated[str | None, typer.Option(help="Where Spark runs.", show_default="local[*]")] = None,
    stop_applications: Annotated[
        bool | None,
        typer.Option(
            "--stop-applications",
            help="Applications end with the service, at a micro-batch, and start when it begins again.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="File with settings.", show_default="braid.toml, if it is there"),
    ] = None,
) -> None:
    """Run the service: programs are deployed to it, and it sees to it that they run.

    What is not given comes from `BRAID_*` variables, then from the file, then is as usual. Applications go on
    when it ends, and the next one finds them.
    """
    try:
        from braid.service.main import serve as run
        from braid.service.settings import read_settings
    except ModuleNotFoundError as error:
        raise ConfigError(f"the service needs the package {error.name!r}", hint=_EXTRA) from None
    flags = {
        "home": home,
        "host": host,
        "port": port,
        "registry": registry,
        "review": review,
        "backend": backend,
        "repo": repo,
        "repo_branch": branch,
        "master": master,
        "stop_applications": stop_applications,
    }
    run(read_settings(config, **flags), _say_ready)


def halt(home: HomeOption = None) -> None:
    """End all applications of this machine at a micro-batch, while no service runs.

    That is for a machine that is shut down: a service that begins starts them again.
    """
    from braid.home.paths import Home
    from braid.home.service import ServiceHome

    try:
        from braid.service.stopping import halt as end
    except ModuleNotFoundError as error:
        raise ConfigError(f"the service needs the package {error.name!r}", hint=_EXTRA) from None
    ended = end(ServiceHome(Home.existing(home)))
    typer.echo(f"ended: {', '.join(ended)}" if ended else "no application was running")


def _say_ready(state: ServiceState, url: str, warning: str | None) -> None:
    typer.echo(f"serving {state.home.root} at {url}")
    if state.follow is not None:
        typer.echo(f"following {state.follow.text}; see `braid repo`")
    if warning is not None:
        typer.echo(warning, err=True)
    typer.echo(f"the token is in {state.folder.token_file}; commands on this machine find it by themselves")


def list_tokens(home: HomeOption = None, server: ServerOption = None) -> None:
    """List tokens; their secrets are not kept."""
    table = Table("id", "name", "role", "sees rows", "only", "expires", "last used")
    with service(home, server) as client:
        for one in client.tokens():
            rows = "yes" if one.rows else ""
            only, expires = ", ".join(one.only), when(one.expires) or "never"
            table.add_row(one.id, one.name, one.role, rows, only, expires, when(one.used))
    print_table(table)


def make_token(
    name: Annotated[str, typer.Argument(help="Whose it is.", show_default=False)],
    role: Annotated[
        Role, typer.Option(help="What it may do; each role may do what those before it may.")
    ] = Role.VIEWER,
    rows: Annotated[bool, typer.Option("--rows", help="It may see rows.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="It may change only applications of such names, as in 'search_*'; may be given again.",
            show_default=False,
        ),
    ] = None,
    days: Annotated[float, typer.Option(help="After which it expires; 0 is never.")] = 90,
    home: HomeOption = None,
    server: ServerOption = None,
) -> None:
    """Make a token, and print it: this is the only time that it is shown."""
    try:
        asked = NewToken(name=name, role=role, rows=rows, days=days or None, only=only or [])
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(
            f"no such token can be made: {first['msg']}", where=".".join(map(str, first["loc"])) or None
        ) from None
    with service(home, server) as client:
        made = client.make_token(asked)
    typer.echo(made.secret)


def drop_token(
    number: Annotated[str, typer.Argument(metavar="ID", help="See `braid tokens list`.", show_default=False)],
    home: HomeOption = None,
    server: ServerOption = None,
) -> None:
    """Let a token be valid no more."""
    with service(home, server) as client:
        dropped = client.drop_token(number)
    typer.echo(f"dropped token {dropped.id} of {dropped.name}")


def audit(
    by: Annotated[
        str | None, typer.Option(help="Only what somebody has changed.", show_default=False)
    ] = None,
    on: Annotated[
        str | None, typer.Option(help="Only changes of an application or a token.", show_default=False)
    ] = None,
    action: Annotated[
        str | None, typer.Option(help="Only such changes, as `deploy`.", show_default=False)
    ] = None,
    since: SinceOption = None,
    before: BeforeOption = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many changes.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with the numbers of changes.")] = False,
    home: HomeOption = None,
    server: ServerOption = None,
) -> None:
    """Show who has changed what, newest first."""
    with service(home, server) as client:
        found = client.audit(limit, by=by, on=on, action=action, since=seconds(since), before=before)
    if as_json:
        typer.echo(json.dumps([one.model_dump(mode="json") for one in found], indent=2))
        return
    table = Table("id", "at", "who", "from", "what", "on", "before", "after")
    for one in found:
        was, is_ = ("" if value is None else str(value) for value in (one.before, one.after))
        table.add_row(str(one.id), when(one.at), one.who, one.source, one.action, one.target, was, is_)
    print_table(table)
