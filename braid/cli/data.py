"""Commands about data: publish, cat, categories."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc
import typer
from rich.table import Table

from braid import api
from braid.cli.consoles import print_table
from braid.core.columns import RAW_COLUMN
from braid.core.config import parse_duration
from braid.core.errors import ConfigError
from braid.core.json_rows import json_rows, json_values
from braid.core.times import now_micros

HomeOption = Annotated[
    Path | None, typer.Option("--home", help="Folder of the log and of applications.", show_default=False)
]


class Format(StrEnum):
    """The forms of `braid cat`."""

    JSONL = "jsonl"
    CSV = "csv"
    TABLE = "table"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(publish)
    app.command()(cat)
    app.command()(categories)


def publish(
    category: Annotated[str, typer.Argument(help="Category to append to.", show_default=False)],
    file: Annotated[
        Path,
        typer.Argument(help="File of JSON lines, or of such lines in gzip; - is the standard input."),
    ] = Path("-"),
    home: HomeOption = None,
) -> None:
    """Append JSON lines to a category: of a file all or none, of the standard input as they come."""
    rows = _publish_input(category, home) if str(file) == "-" else api.publish_file(category, file, home)
    typer.echo(f"{category}: {rows} records", err=True)


def cat(
    category: Annotated[str, typer.Argument(help="Category to print.", show_default=False)],
    form: Annotated[Format, typer.Option("--format", help="How to print rows.")] = Format.JSONL,
    limit: Annotated[int | None, typer.Option(min=0, help="Most rows to print.", show_default=False)] = None,
    last: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Only the last so many rows; --last 0 --follow prints only what comes.",
            show_default=False,
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            help="Only rows published since then: a time such as 2026-11-18T09:30, in UTC unless it says "
            "otherwise, or a duration such as '10 minutes' before now.",
            show_default=False,
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more rows.")] = False,
    home: HomeOption = None,
) -> None:
    """Print the rows of a category, oldest first."""
    begin = None if since is None else moment(since)
    batches = _limited(api.read_batches(category, home, since=begin, last=last, follow=follow), limit)
    try:
        if form is Format.JSONL:
            _print_json(batches)
        elif form is Format.CSV:
            _print_csv(batches)
        else:
            _print_table(category, batches)
    except (KeyboardInterrupt, BrokenPipeError):
        raise typer.Exit(0) from None


def categories(home: HomeOption = None) -> None:
    """List categories with their rows, commits, files, sizes on the disk, time ranges and owners."""
    table = Table("category", "kind", "rows", "commits", "files", "size", "shards", "times", "written by")
    for info in api.categories(home):
        times = "" if info.first_time is None else f"{_iso(info.first_time)} .. {_iso(info.last_time)}"
        table.add_row(
            info.name,
            "raw" if info.raw else "typed",
            f"{info.rows:,}",
            f"{info.commits:,}",
            f"{info.files:,}",
            size_text(info.bytes),
            str(info.shards),
            times,
            info.owner or "",
        )
    print_table(table)


def _publish_input(category: str, home: Path | None) -> int:
    """Publish the standard input; at Ctrl-C, say how many records of it have been."""
    rows = 0

    def count(published: int) -> None:
        nonlocal rows
        rows = published

    try:
        return api.publish_lines(category, sys.stdin.buffer, home, on_commit=count)
    except KeyboardInterrupt:
        typer.echo(f"{category}: {rows} records", err=True)
        raise


def moment(text: str) -> int:
    """Microseconds since 1970 of a time, or of a duration before now."""
    try:
        found = datetime.fromisoformat(text)
        return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1e6)
    except ValueError:
        pass
    try:
        return now_micros() - parse_duration(text)
    except ValueError:
        raise ConfigError(
            f"{text!r} is neither a time nor a duration",
            where="--since",
            hint="write 2026-11-18, 2026-11-18T09:30:00+01:00 or '10 minutes'",
        ) from None


def _limited(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        part = batch if limit is None else batch.slice(0, limit)
        yield part
        if limit is not None:
            limit -= part.num_rows
            if limit <= 0:
                return


def _print_json(batches: Iterator[pa.RecordBatch]) -> None:
    for batch in batches:
        raw = batch.schema.names == [RAW_COLUMN]
        texts = batch.column(RAW_COLUMN) if raw else json_rows(batch)
        if len(texts):
            sys.stdout.write("\n".join(texts.to_pylist()) + "\n")
            sys.stdout.flush()


def _print_csv(batches: Iterator[pa.RecordBatch]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    header: list[str] | None = None
    for batch in batches:
        if header is None:
            header = list(batch.schema.names)
            writer.writerow(header)
        writer.writerows(zip(*(_texts(batch, name) for name in header), strict=True))
        sys.stdout.flush()


def _print_table(category: str, batches: Iterator[pa.RecordBatch]) -> None:
    table = Table(title=category)
    for batch in batches:
        for name in batch.schema.names[len(table.columns) :]:
            table.add_column(name)
        for row in zip(*(_texts(batch, name) for name in batch.schema.names), strict=True):
            table.add_row(*(str(value) for value in row))
    buffer = io.StringIO()
    print_table(table, buffer)
    sys.stdout.write(buffer.getvalue())


def _texts(batch: pa.RecordBatch, name: str) -> list[object]:
    """Values for people: texts as they are, others as in JSON, NULL as nothing."""
    if name not in batch.schema.names:
        return [""] * batch.num_rows
    column = batch.column(name)
    if not pa.types.is_string(column.type):
        plain = pc.replace_substring_regex(json_values(column), '^"(.*)"$', r"\1")
        column = pc.if_else(column.is_valid(), plain, None)
    return ["" if value is None else value for value in column.to_pylist()]


def _iso(micros: int | None) -> str:
    return "" if micros is None else datetime.fromtimestamp(micros / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def size_text(size: float) -> str:
    """`12.3 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
