"""The newest rows of a category, with when each has arrived, and how many arrive per second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa

from braid.core.columns import HASH
from braid.core.times import MINUTE, SECOND
from braid.kernels.arrays import Ints
from braid.log.category import Category

SAMPLE_ROWS = 100_000
"""Most rows of all categories that a program reads."""
SAMPLE_BYTES = 64 * 2**20
SAMPLE_COMMITS = 2_000
_LIVE_COMMITS, _LIVE_SECONDS = 5, 20
"""A category is live if it has so many commits, over so many seconds at least, ..."""
_SILENCE = 2 * MINUTE
"""... and the newest is no older than that."""


class Basis(StrEnum):
    """What rates are taken from."""

    COMMITS = "commits"
    """The times of commits: rows arrive now."""
    EVENT_TIMES = "event times"
    """Event times of a backlog: as if rows had arrived when they happened."""
    NOTHING = "nothing"
    """Neither is known."""


@dataclass(frozen=True, eq=False)
class Sample:
    """The newest rows of a category.

    Parameters
    ----------
    category
        Its name.
    rows
        As they are stored, without hash.
    commits
        Numbers of the commits, with how many rows of each, from its end.
    walls
        When each commit was published, in microseconds.
    skipped
        Rows of the first commit that are left out.
    """

    category: str
    rows: pa.Table
    commits: tuple[tuple[int, int], ...]
    walls: tuple[int, ...]
    skipped: int = 0

    def arrivals(self) -> Ints:
        """When each row was published."""
        return np.repeat(np.array(self.walls, np.int64), [rows for _, rows in self.commits])

    def is_live(self, now: int) -> bool:
        """Whether rows arrive at present, so that the times of commits say how many."""
        spans = len(self.walls) >= _LIVE_COMMITS and self.walls[-1] - self.walls[0] >= _LIVE_SECONDS * SECOND
        return spans and now - self.walls[-1] <= _SILENCE

    def rate(self) -> float:
        """Rows per second by the times of commits; the first one tells only from when on."""
        seconds = (self.walls[-1] - self.walls[0]) / SECOND
        return sum(rows for _, rows in self.commits[1:]) / seconds if seconds > 0 else 0.0

    def place(self, row: int) -> str:
        """Where a row is, in words."""
        before = self.skipped
        for commit, rows in self.commits:
            if row < rows:
                return f"row {row + before:,} of commit {commit:,} of category {self.category}"
            row, before = row - rows, 0
        return f"category {self.category}"


def newest(category: Category, most: int = SAMPLE_ROWS) -> Sample:
    """Read the newest rows of a category, in order of arrival."""
    reader = category.reader()
    tables: list[pa.Table] = []
    commits: list[tuple[int, int]] = []
    walls: list[int] = []
    left, size, skipped = most, 0, 0
    oldest = max(reader.first, reader.latest() - SAMPLE_COMMITS + 1)
    for number in range(reader.latest(), oldest - 1, -1):
        commit, rows = reader.commit(number), 0
        for chunk in reversed(commit.chunks):
            batch = _without_hash(reader.read(number, chunk.index))
            table = pa.table(batch.slice(max(0, batch.num_rows - left)))
            tables.append(table)
            rows, left, size = rows + table.num_rows, left - table.num_rows, size + table.nbytes
            if left <= 0 or size >= SAMPLE_BYTES:
                break
        if rows:
            skipped = commit.rows - rows
            commits.append((number, rows))
            walls.append(commit.wall_time)
        if left <= 0 or size >= SAMPLE_BYTES:
            break
    return Sample(
        category.name, _joined(category, tables[::-1]), tuple(commits[::-1]), tuple(walls[::-1]), skipped
    )


def _without_hash(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.drop_columns([HASH]) if HASH in batch.schema.names else batch


def _joined(category: Category, tables: Sequence[pa.Table]) -> pa.Table:
    """All rows; columns that old ones lack are NULL."""
    schema = category.schema
    if HASH in schema.names:
        schema = schema.remove(schema.get_field_index(HASH))
    return pa.concat_tables([schema.empty_table(), *tables], promote_options="default").combine_chunks()
