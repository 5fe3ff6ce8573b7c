"""Rows in and out of the log without Spark: publishing JSON records, reading and listing categories."""

from __future__ import annotations

import json
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType

import pyarrow as pa

from braid.core.columns import HASH, RAW_COLUMN
from braid.core.errors import LogError, SchemaError
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
        self._waiting: list[str] = []
        self._since = time.monotonic()
        self.rows = 0

    def send(self, record: Record) -> None:
        """Add a record: a JSON text of one line, or a mapping."""
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting.append(record if isinstance(record, str) else json.dumps(record))
        if len(self._waiting) >= self._batch_rows or time.monotonic() - self._since >= self._batch_seconds:
            self.flush()

    def flush(self) -> None:
        """Make everything that was sent durable and visible."""
        if self._waiting:
            self._category.append(pa.table({RAW_COLUMN: pa.array(self._waiting, pa.string())}))
            self.rows += len(self._waiting)
            self._waiting = []

    def __enter__(self) -> Publisher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.flush()


def publish(
    category: str, records: Iterable[Record], home: HomeLike = None, batch_rows: int = BATCH_ROWS
) -> int:
    """Append JSON records (texts or mappings) to a category of raw records; how many there were."""
    with Publisher(category, home, batch_rows) as publisher:
        for record in records:
            publisher.send(record)
    return publisher.rows


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
    """What `braid categories` shows of a category; times in microseconds, None without event times."""

    name: str
    raw: bool
    commits: int
    rows: int
    bytes: int
    shards: int
    first_time: int | None
    last_time: int | None


def categories(home: HomeLike = None) -> list[CategoryInfo]:
    """All categories of a home."""
    log = Home.existing(home).log()
    return [_describe(log.open(name)) for name in log.categories()]


def _describe(category: Category) -> CategoryInfo:
    reader: Reader = category.reader()
    rows = size = 0
    low: int | None = None
    high: int | None = None
    latest = reader.latest()
    for number in range(reader.first, latest + 1):
        commit = reader.commit(number)
        rows += commit.rows
        size += sum(entry.size for entry in commit.files.values())
        for chunk in commit.chunks:
            for times in list(chunk.times.values())[:1]:
                if times.min is not None and times.max is not None:
                    low = times.min if low is None else min(low, times.min)
                    high = times.max if high is None else max(high, times.max)
    return CategoryInfo(
        category.name, category.raw, latest + 1 - reader.first, rows, size, category.shards, low, high
    )


def _raw_category(home: Home, name: str) -> Category:
    log = home.log()
    try:
        category = log.open(name)
    except LogError:
        return log.create(name, raw=True)
    if not category.raw:
        raise SchemaError(
            f"category {name!r} holds typed rows, which an application writes",
            hint="publish to a category of raw records, or to a new one",
        )
    return category


def _pause() -> None:
    time.sleep(0.2)
