"""Commands about running applications: run, status."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from braid import api
from braid.cli.consoles import print_table
from braid.cli.data import HomeOption
from braid.cli.figures import behind_words, dead_words, lag_words, rate_words, speed_words
from braid.cli.interrupts import Interrupted, interruptible
from braid.cli.landed import roll_back, show_versions
from braid.cli.monitor import Monitor
from braid.cli.remote import ServerOption, service_of
from braid.core.errors import ConfigError
from braid.home.status import InputStatus, StageStatus, Status


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(run)
    app.command()(rollback)
    app.command()(versions)
    app.command()(status)
    app.command()(rescale)
    app.command()(release)


YesOption = Annotated[
    bool, typer.Option("--yes", help="Agree to an update that replays inputs, without being asked.")
]
DiscardOption = Annotated[
    bool,
    typer.Option("--discard", help="Agree that such an update decides rows in flight before their time."),
]
RemoveOption = Annotated[
    bool, typer.Option("--remove", help="Agree that tables or joins of what runs are left out.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="option=value; overrides the program in this run, and is compared with the last one.",
        show_default=False,
    ),
]
MasterOption = Annotated[
    str | None,
    typer.Option(
        help="Where Spark runs; local[*] by default. With spark://HOST:PORT, packages are shipped, and "
        "the home must be a folder that all machines share.",
        show_default=False,
    ),
]
SparkOption = Annotated[
    list[str] | None, typer.Option("--spark", help="spark.setting=value.", show_default=False)
]
DrainOption = Annotated[
    bool, typer.Option("--drain", help="Work off everything available, close all windows, and end.")
]


def run(
    program: Annotated[Path, typer.Argument(help="A PQL program, or a plan as JSON.", show_default=False)],
    home: HomeOption = None,
    drain: DrainOption = False,
    create: Annotated[
        bool,
        typer.Option("--create", help="Make input categories that are not there, and wait for records."),
    ] = False,
    assignments: SetOption = None,
    master: MasterOption = None,
    spark: SparkOption = None,
    yes: YesOption = False,
    discard: DiscardOption = False,
    savepoint: Annotated[
        str | None,
        typer.Option("--from", help="Begin from a savepoint; see `braid savepoints`.", show_default=False),
    ] = None,
) -> None:
    """Run an application in the foreground; Ctrl-C stops it, and the next start goes on from there.

    Another program than the last one is an update: `braid diff` tells beforehand what that does to rows in
    flight. One that replays inputs says so, and asks.

    A second Ctrl-C ends the process at once, which loses nothing either. The exit code is 0 if the
    application was drained or stopped, 1 if it failed, and 128 and the signal's number if it was interrupted
    while starting.
    """
    plan = api.load_plan(program)
    if savepoint is not None:
        api.restore(savepoint, plan, home, discard=discard)
    _run(plan, home, assignments, master, spark, yes=yes, discard=discard, drain=drain, create=create)


def rollback(
    application: Annotated[
        str, typer.Argument(help="An application that is stopped, or deployed.", show_default=False)
    ],
    version: Annotated[
        int | None, typer.Argument(help="See `braid versions`.", show_default="the one before the last")
    ] = None,
    home: HomeOption = None,
    drain: DrainOption = False,
    assignments: SetOption = None,
    master: MasterOption = None,
    spark: SparkOption = None,
    yes: YesOption = False,
    discard: DiscardOption = False,
    remove: RemoveOption = False,
    server: ServerOption = None,
) -> None:
    """Run an earlier version of an application, in the foreground, as `braid run` does.

    That is an update like any other: rows in flight go on as the earlier program says. A deployed application
    is left to the service: it has the options that the version was deployed with.
    """
    client = service_of(application, home, server)
    if client is not None:
        with client:
            if drain or assignments or master or spark:
                raise ConfigError(
                    f"application {application!r} is deployed: --drain, --set, --master and --spark "
                    "do not go with that",
                    hint="leave them out, or deploy it with other options: braid deploy --set",
                )
            roll_back(client, application, version, yes=yes, discard=discard, remove=remove)
        return
    plan = api.version_plan(application, version, home)
    _run(plan, home, assignments, master, spark, yes=yes, discard=discard, drain=drain)


def versions(
    application: Annotated[str, typer.Argument(help="An application.", show_default=False)],
    home: HomeOption = None,
    server: ServerOption = None,
) -> None:
    """List the programs that an application has run, or that were deployed, and what each has changed."""
    client = service_of(application, home, server)
    if client is not None:
        with client:
            show_versions(client, application)
        return
    table = Table("version", "started", "update", "changes")
    for one in api.versions(application, home):
        started = datetime.fromtimestamp(one.started, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        table.add_row(str(one.number), started, one.verdict or "", "\n".join(one.changes))
    print_table(table)


def _run(
    plan: api.Plan,
    home: Path | None,
    assignments: list[str] | None,
    master: str | None,
    spark: list[str] | None,
    *,
    yes: bool,
    discard: bool,
    drain: bool,
    create: bool = False,
) -> None:
    monitor = Monitor(sys.stderr)
    handle: api.Application | None = None
    options = pairs(assignments, "--set")
    yes, discard = _agreed(api.update_of(plan, home, options), yes, discard)
    with interruptible():
        try:
            handle = api.run(
                plan,
                home,
                options=options,
                drain=drain,
                create=create,
                master=master,
                settings=pairs(spark, "--spark"),
                replay=yes,
                discard=discard,
                on_phase=monitor.phase,
            )
            with monitor.showing(handle):
                handle.wait()
        except Interrupted as interrupt:
            if handle is None:
                typer.echo("stopped while starting", err=True)
                raise typer.Exit(interrupt.code) from None
            handle.stop()
            handle.wait()
    typer.echo(monitor.summary(handle))


def _agreed(update: api.Update | None, yes: bool, discard: bool) -> tuple[bool, bool]:
    """Show an update that replays inputs, and ask a person at a terminal; without one, options must do."""
    if update is None or update.found.verdict is not api.Verdict.REPLAYED:
        return yes, discard
    typer.echo(api.diff_text(update.found), err=True, nl=False)
    held = {name: rows for name, rows in update.in_flight().items() if rows}
    for name, rows in held.items():
        typer.echo(f"{name}: {rows:,} rows in flight are decided before their time", err=True)
    if sys.stdin.isatty():
        yes = yes or typer.confirm("Carry out this update?", err=True)
        discard = discard or not held or (yes and typer.confirm("Decide rows in flight now?", err=True))
    return yes, discard


def status(
    home: HomeOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the applications of a home, running and stopped: totals of all runs, rates, lag and backlog.

    Rows behind are published and not read; the time behind is the newest event time published, less the
    newest one read. Lag is how far stream time is behind the clock.
    """
    found = api.status(home)
    if as_json:
        typer.echo(json.dumps([value.model_dump(mode="json") for value in found], indent=2))
        return
    print_status(found)


def print_status(found: Sequence[Status]) -> None:
    """Print what applications are doing, a line for each stage."""
    table = Table(
        "application",
        "state",
        "stage",
        "what",
        "rows in",
        "rows out",
        "in / out per s, last min",
        "match rate, all and of late",
        "lag",
        "behind",
        "dead letters",
        "held up",
        "updated",
    )
    for value in found:
        for number, (name, stage) in enumerate(value.stages.items()):
            table.add_row(
                value.application if number == 0 else "",
                value.state if number == 0 else "",
                name,
                stage.what,
                f"{stage.totals.rows_in:,}",
                f"{stage.totals.rows_out:,}",
                speed_words(stage.recent[0]) if value.state.active and stage.recent else "",
                rate_words(stage),
                _by_input(stage, lag_words),
                _by_input(stage, behind_words),
                dead_words(stage.totals),
                stage.held_up or "",
                datetime.fromtimestamp(value.updated, UTC).strftime("%H:%M:%SZ") if number == 0 else "",
            )
        if value.error:
            table.add_row("", "", value.error)
        for trouble in value.troubles:
            table.add_row("", "", f"upkeep of {trouble}")
    print_table(table)


def _by_input(stage: StageStatus, words: Callable[[InputStatus], str]) -> str:
    """What there is to say of each input, with its name if there are several."""
    found = {name: text for name, one in stage.inputs.items() if (text := words(one))}
    return "\n".join(f"{name} {text}" if len(stage.inputs) > 1 else text for name, text in found.items())


def rescale(
    application: Annotated[str, typer.Argument(help="A running application.", show_default=False)],
    home: HomeOption = None,
    shards: Annotated[
        int | None,
        typer.Option(help="Ranges of hashes that the work is split into.", show_default="the option shards"),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(help="Tasks of Spark that work side by side.", show_default="one per executor"),
    ] = None,
) -> None:
    """Split the joins of a running application otherwise; rows in flight stay, and none comes out twice.

    The next start goes by the option `shards` and by the executors again.
    """
    done = api.rescale(application, home, shards=shards, partitions=partitions)
    for stage, seconds in done.items():
        typer.echo(f"{stage}: rescaled, paused for {seconds:.1f} s")
    if not done:
        typer.echo("nothing to change")


def release(
    application: Annotated[str, typer.Argument(help="An application that is stopped.", show_default=False)],
    home: HomeOption = None,
) -> None:
    """Let other applications write the categories and tables that an application owns."""
    released = api.release(application, home)
    if not released:
        raise ConfigError(f"application {application!r} owns nothing", hint="braid status lists applications")
    for what in released:
        typer.echo(f"released {what}")


def pairs(assignments: list[str] | None, option: str) -> dict[str, str]:
    """`name=value` texts of an option as a mapping."""
    pairs = {}
    for text in assignments or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"{option} {text!r} has no value", hint=f"write {option} name=value")
        pairs[name.strip()] = value.strip()
    return pairs
