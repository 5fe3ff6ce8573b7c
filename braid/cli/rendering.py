"""Commands that print files with which the service is deployed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from braid.core.errors import ConfigError, RunError

render = typer.Typer(
    help="Deployment files of the service: for systemd, an image, Kubernetes.", no_args_is_help=True
)
OutOption = Annotated[
    Path | None,
    typer.Option("--out", help="Folder to write to.", show_default="the files are printed"),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    render.command()(systemd)
    render.command()(dockerfile)
    render.command()(kubernetes)
    app.add_typer(render, name="render")


def systemd(
    home: Annotated[str | None, typer.Option(help="The home.", show_default="/var/lib/braid")] = None,
    user: Annotated[str | None, typer.Option(help="Who owns it.", show_default="braid")] = None,
    braid: Annotated[
        str | None, typer.Option(help="The command.", show_default="/opt/braid/bin/braid")
    ] = None,
    environment: Annotated[
        str | None,
        typer.Option(help="File with more variables.", show_default="/etc/braid/environment"),
    ] = None,
    out: OutOption = None,
) -> None:
    """Units for systemd: the service, and what ends applications when the machine is shut down."""
    from braid.service.deploy import render

    given = {"home": home, "user": user, "braid": braid, "environment": environment}
    _put(render.systemd(render.options_of(render.Systemd, given)), out)


def dockerfile(
    base: Annotated[
        str | None,
        typer.Option(help="Image that it begins with.", show_default="python:3.11-slim-bookworm"),
    ] = None,
    home: Annotated[
        str | None, typer.Option(help="The home, in the container.", show_default="/var/lib/braid")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port of the service.", show_default="7077")] = None,
    out: OutOption = None,
) -> None:
    """A Dockerfile, of an image for the service and for drivers."""
    from braid.service.deploy import render

    given = {"base": base, "home": home, "port": port}
    _put(render.dockerfile(render.options_of(render.Dockerfile, given)), out)


def kubernetes(
    image: Annotated[str, typer.Option(help="Image of the service and of drivers.", show_default=False)],
    namespace: Annotated[str | None, typer.Option(help="Where all of it is.", show_default="braid")] = None,
    home: Annotated[
        str | None, typer.Option(help="The home, in containers.", show_default="/var/lib/braid")
    ] = None,
    claim: Annotated[str | None, typer.Option(help="Volume claim.", show_default="braid-home")] = None,
    storage: Annotated[str | None, typer.Option(help="Its size.", show_default="100Gi")] = None,
    storage_class: Annotated[
        str | None, typer.Option(help="Its class.", show_default="the cluster's")
    ] = None,
    account: Annotated[
        str | None, typer.Option(help="Service account of drivers.", show_default="braid-driver")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port of the service.", show_default="7077")] = None,
    out: OutOption = None,
) -> None:
    """Manifests for Kubernetes: the service with all that it needs, but for a Secret that they describe."""
    from braid.service.deploy import render

    given = {
        "image": image,
        "namespace": namespace,
        "home": home,
        "claim": claim,
        "storage": storage,
        "storage_class": storage_class,
        "account": account,
        "port": port,
    }
    _put(render.kubernetes(render.options_of(render.Kubernetes, given)), out)


def _put(files: Mapping[str, str], out: Path | None) -> None:
    """Print files, or write them to a folder where none of them is yet."""
    if out is None:
        typer.echo("\n".join(files.values()), nl=False)
        return
    there = [name for name in files if (out / name).exists()]
    if there:
        raise RunError(f"{', '.join(there)}: there already", where=str(out), hint="choose another folder")
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (out / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write: {error.strerror}", where=str(error.filename)) from None
    for name in files:
        typer.echo(str(out / name))
