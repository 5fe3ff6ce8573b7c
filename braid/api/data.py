"""Rows in and out of the log without Spark: publishing JSON records, reading and listing categories."""

from __future__ import annotations

import select
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import pyarrow as pa

from braid.core.columns import HASH, RAW_COLUMN
from braid.core.errors import LogError, SchemaError
from braid.core.interrupts import uninterrupted
from braid.core.json_lines import json_text, line_batches
from braid.core.owner import NOBODY
from braid.home.paths import Home, HomeLike
from braid.log.category import Category
from braid.log.reader import Reader

BATCH_ROWS = 50_000
BATCH_SECONDS = 1.0

Record = str | Mapping[str, object]


class Publisher:
    """Appends JSON records to a raw category, many in one commit.

    Parameters
    ----------
    category, home
        Where to append; the category is made on first use.
    batch_rows, batch_seconds
        A commit is written when it has so many records, or when its oldest has waited for so long and
        another one comes; `flush` and leaving the `with` block write the rest.
    """

    def __init__(
        self,
        category: str,
        home: HomeLike = None,
        batch_rows: int = BATCH_ROWS,
        batch_seconds: float = BATCH_SECONDS,
    ) -> None:
        self._category = _raw_category(Home.at(home), category)
        self._batch_rows = batch_rows
        self._batch_seconds = batch_seconds
        self._waiting: list[Record] = []
        self._since = time.monotonic()
        self.rows = 0

    def send(self, record: Record) -> None:
        """Add a record: a JSON text of one line, or a mapping."""
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting.append(record)
        if len(self._waiting) >= self._batch_rows or time.monotonic() - self._since >= self._batch_seconds:
            self.flush()

    def flush(self) -> None:
        """Make everything that was sent durable and visible."""
        if self._waiting:
            self._category.append(_table(self._waiting))
            self.rows += len(self._waiting)
            self._waiting = []

    def __enter__(self) -> Publisher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.flush()


def publish(category: str, records: Iterable[Record], home: HomeLike = None) -> int:
    """Append JSON records (texts or mappings) to a category of raw records; how many there were.

    They are one commit: if `records` raises an error, or the process ends, none of them is there.
    """
    return _append(_raw_category(Home.at(home), category), map(_table, _batched(records)))


def publish_file(category: str, file: str | Path, home: HomeLike = None) -> int:
    """Append the lines of a file, which may be compressed, in one commit; how many there were.

    Blank lines are left out. Whether lines are JSON is for the applications that read them to say; a file
    that is not UTF-8 is refused, with the number of the line.
    """
    with Path(file).open("rb") as opened:
        target = _raw_category(Home.at(home), category)
        packed = str(file).endswith((".gz", ".bz2", ".zst"))
        stream = pa.CompressedInputStream(opened, pa.Codec.detect(str(file)).name) if packed else opened
        try:
            return _append(target, line_batches(stream.read, str(file)))
        except OSError as error:
            if error.errno is not None:
                raise
            hint = "nothing was published; check that it is what its name says, and complete"
            raise LogError(f"cannot read the file: {error}", where=str(file), hint=hint) from error


def publish_lines(
    category: str,
    stream: BinaryIO,
    home: HomeLike = None,
    *,
    on_commit: Callable[[int], None] | None = None,
) -> int:
    """Append lines as they come, about a commit per second; how many there were.

    However it ends, the lines that have come are published first: at Ctrl-C, and before the error about a
    line that is not UTF-8, which says how many there were.

    Parameters
    ----------
    category, home
        Where to append; the category is made on first use.
    stream
        What to read. While one without a file descriptor blocks, nothing is published.
    on_commit
        Called after every commit with how many lines have been published so far.
    """
    target = _raw_category(Home.at(home), category)
    take: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
    rows, waiting, since = 0, list[pa.Table](), time.monotonic()

    def commit() -> None:
        nonlocal rows, waiting, since
        if not waiting:
            return
        # If it could be cut short, nobody would know whether its lines are there.
        with uninterrupted():
            tables, waiting = waiting, []
            rows += _append(target, tables)
            if on_commit is not None:
                on_commit(rows)
        since = time.monotonic()

    def read(size: int) -> bytes:
        left = since + BATCH_SECONDS - time.monotonic()
        if waiting and (left <= 0 or not _readable(stream, left)):
            commit()
        return take(size)

    try:
        try:
            for batch in line_batches(read, "the standard input"):
                waiting.append(batch)
                if sum(map(len, waiting)) >= BATCH_ROWS:
                    commit()
        finally:
            commit()
    except SchemaError as error:
        hint = f"the first {rows} records have been published, and nothing after them"
        raise SchemaError(error.what, where=error.where, hint=hint) from None
    return rows


def _readable(stream: BinaryIO, seconds: float) -> bool:
    """Whether there is something to read, or the end, within some seconds; True if that cannot be asked."""
    try:
        return bool(select.select([stream], [], [], seconds)[0])
    except ValueError:  # it has no file descriptor
        return True


def _append(category: Category, tables: Iterable[pa.Table]) -> int:
    """Write rows into one file as they come, then publish it whole; how many there were."""
    rows = 0

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal rows
        for table in tables:
            rows += table.num_rows
            yield from table.to_batches()

    batches = (batch for batch in counted() if batch.num_rows)
    first = next(batches, None)
    if first is not None:
        category.append(chain([first], batches))
    return rows


def _batched(records: Iterable[Record]) -> Iterator[list[Record]]:
    left = iter(records)
    while batch := list(islice(left, BATCH_ROWS)):
        yield batch


def _table(records: Sequence[Record]) -> pa.Table:
    texts = [record if isinstance(record, str) else json_text(record) for record in records]
    try:
        return pa.table({RAW_COLUMN: pa.array(texts, pa.string())})
    except UnicodeEncodeError as error:
        raise SchemaError(
            f"a record is not text: {error.reason}: {error.object[:80]!r}",
            hint="records are UTF-8; half of a surrogate pair is not",
        ) from None


def read_batches(
    category: str,
    home: HomeLike = None,
    *,
    since: int | None = None,
    last: int | None = None,
    follow: bool = False,
    wait: Callable[[], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Rows of a category, oldest commit first, without the hash that they are sharded by.

    Parameters
    ----------
    category, home
        What to read.
    since
        When the first commit to read was published, at the earliest, in microseconds.
    last
        How many of the rows that are there now to read, counted from the end; with `follow`, 0 begins with
        what comes next.
    follow
        Whether to wait for more at the end.
    wait
        What to do while there is nothing new; sleeps for a moment by default.
    """
    reader = Home.at(home).log().open(category).reader()
    number = reader.first if since is None else _published_since(reader, since)
    skip = 0
    if last is not None:
        number, skip = _tail(reader, number, last)
    while True:
        latest = reader.latest()
        while number <= latest:
            for batch in reader.rows(number):
                skipped = min(skip, batch.num_rows)
                skip -= skipped
                rows = batch.slice(skipped)
                yield rows.drop_columns([HASH]) if HASH in rows.schema.names else rows
            number += 1
        if not follow:
            return
        (wait or _pause)()


def _published_since(reader: Reader, since: int) -> int:
    """The first commit that was published at a moment or later."""
    return bisect_left(
        range(reader.latest() + 1), since, lo=reader.first, key=lambda number: reader.commit(number).wall_time
    )


def _tail(reader: Reader, first: int, rows: int) -> tuple[int, int]:
    """The commit in which the last rows from `first` on begin, and how many rows of it come before them."""
    number, found = reader.latest() + 1, 0
    while found < rows and number > first:
        number -= 1
        found += reader.commit(number).rows
    return number, max(0, found - rows)


def read(category: str, home: HomeLike = None, limit: int | None = None) -> pa.Table:
    """Rows of a category as one table, at most `limit`; columns that old rows lack are NULL."""
    batches: list[pa.RecordBatch] = []
    rows = 0
    for batch in read_batches(category, home):
        batches.append(batch if limit is None else batch.slice(0, limit - rows))
        rows += batches[-1].num_rows
        if limit is not None and rows >= limit:
            break
    schema = Home.at(home).log().open(category).schema
    if HASH in schema.names:
        schema = schema.remove(schema.get_field_index(HASH))
    return pa.concat_tables(
        [pa.Table.from_batches([], schema), *(pa.table(b) for b in batches)], promote_options="default"
    )


@dataclass(frozen=True)
class CategoryInfo:
    """What `braid categories` shows of a category: `files` and `bytes` on the disk, times in microseconds.

    Times are None without event times. `owner` is the application that writes it; None if it is open to all.
    """

    name: str
    raw: bool
    commits: int
    rows: int
    files: int
    bytes: int
    shards: int
    first_time: int | None
    last_time: int | None
    owner: str | None = None


def categories(home: HomeLike = None) -> list[CategoryInfo]:
    """All categories of a home."""
    log = Home.existing(home).log()
    return [_describe(log.open(name)) for name in log.categories()]


def _describe(category: Category) -> CategoryInfo:
    found = category.statistics()
    times = (found.times[column] for column in category.time_columns if column in found.times)
    first_time, last_time = next(times, (None, None))
    return CategoryInfo(
        category.name,
        category.raw,
        found.commits,
        found.rows,
        found.files,
        found.bytes,
        category.shards,
        first_time,
        last_time,
        None if category.owner in (None, NOBODY) else category.owner.application,
    )


def _raw_category(home: Home, name: str) -> Category:
    log = home.log()
    try:
        category = log.open(name)
    except LogError:
        return log.create(name, raw=True)
    if not category.raw:
        writer = "an application" if category.owner in (None, NOBODY) else category.owner.text
        raise SchemaError(
            f"category {name!r} holds typed rows, which {writer} writes",
            hint="publish to a category of raw records, or to a new one",
        )
    return category


def _pause() -> None:
    time.sleep(0.2)
