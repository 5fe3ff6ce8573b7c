"""The streams: seeded, generated once, stored as Parquet files in the order of arrival."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from braid.testing.workloads import search_sessions
from suite.spec import HOUR, MINUTE, SECOND, Query

START = 1_704_067_200_000
"""Event times begin here: 1 January 2024, in milliseconds."""
FILES = 16
"""Files per side unless a workload says otherwise; file n of either side arrived in the same interval."""
VERSION = 4
"""Part of the cache's names: raised whenever generated rows change."""

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Stream:
    """Rows in any order: event time, arrival time (milliseconds) and key."""

    event: Numbers
    arrival: Numbers
    key: Numbers


@dataclass(frozen=True)
class Workload:
    """Two streams and the query that joins them.

    Parameters
    ----------
    name, title
        How it is called, and what it is, in a few words.
    rows
        Rows per side, roughly.
    make
        Generates both streams for a number of rows.
    query
        The join.
    files
        Files per side.
    whole
        Whether every system is given all rows, however slow it is: where memory is what is compared.
    """

    name: str
    title: str
    rows: int
    make: Callable[[int], tuple[Stream, Stream]]
    query: Query
    files: int = FILES
    whole: bool = False


@dataclass(frozen=True)
class Dataset:
    """A workload of some size on disk."""

    folder: Path
    query: Query
    left_rows: int
    right_rows: int

    @property
    def rows(self) -> int:
        """Rows of both sides."""
        return self.left_rows + self.right_rows

    def side(self, name: str) -> Path:
        """The folder with the files of `left` or `right`."""
        return self.folder / name

    def files(self, name: str) -> list[str]:
        """The files of a side in the order of arrival."""
        return sorted(str(path) for path in self.side(name).glob("*.parquet"))


def prepare(workload: Workload, rows: int, cache: Path) -> Dataset:
    """The workload with so many rows per side; generated unless it is in the cache."""
    about = {"query": asdict(workload.query), "rows": rows, "files": workload.files, "version": VERSION}
    digest = hashlib.sha256(json.dumps([workload.title, about], sort_keys=True).encode()).hexdigest()[:8]
    folder = cache / f"{workload.name}-{rows}-{digest}"
    if not (folder / "about.json").exists():
        shutil.rmtree(folder, ignore_errors=True)
        left, right = workload.make(rows)
        first = min(int(left.arrival.min()), int(right.arrival.min()))
        last = max(int(left.arrival.max()), int(right.arrival.max()))
        edges = np.linspace(first, last + 1, workload.files + 1).astype(np.int64)
        for number, (name, stream) in enumerate((("left", left), ("right", right))):
            _write(folder / name, stream, edges, workload.query.texts, seed=number)
        about |= {"left_rows": len(left.key), "right_rows": len(right.key)}
        (folder / "about.json").write_text(json.dumps(about, indent=1))
    about = json.loads((folder / "about.json").read_text())
    return Dataset(folder, workload.query, about["left_rows"], about["right_rows"])


def prepare_csv(data: Dataset) -> None:
    """The same files as CSV beside those in Parquet, with `id` as `number` and `t` in milliseconds."""
    for side in ("left", "right"):
        folder = data.folder / f"{side}-csv"
        if (folder / ".ready").exists():
            continue
        folder.mkdir(exist_ok=True)
        for path in data.files(side):
            table = pq.read_table(path)
            times = pc.divide(table["t"].cast(pa.int64()), 1000)
            table = table.set_column(1, "t", times).rename_columns({"id": "number"})
            csv.write_csv(table, folder / f"{Path(path).stem}.csv")
        (folder / ".ready").touch()


def table_of(stream: Stream, texts: tuple[str, ...], seed: int, first_id: int = 0) -> pa.Table:
    """The rows of a stream in the order of arrival, numbered, with payload."""
    order = np.argsort(stream.arrival, kind="stable")
    rng = np.random.default_rng([7, seed])
    columns: dict[str, pa.Array] = {
        "id": pa.array(np.arange(first_id, first_id + len(order))),
        "t": pa.array(stream.event[order] * 1000).cast(pa.timestamp("us", tz="UTC")),
        "key": pa.array(stream.key[order]).cast(pa.string()),
        "payload": pa.array(rng.random(len(order))),
    }
    for name in texts:
        columns[name] = _texts(rng, len(order))
    return pa.table(columns)


def _texts(rng: np.random.Generator, rows: int, length: int = 50) -> pa.Array:
    """Random hexadecimal texts, of which a compressor makes half at best."""
    digits = np.frombuffer(rng.bytes(rows * length // 2).hex().encode(), np.uint8)
    offsets = np.arange(rows + 1, dtype=np.int32) * length
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(digits)])


def _write(folder: Path, stream: Stream, edges: Numbers, texts: tuple[str, ...], seed: int) -> None:
    folder.mkdir(parents=True)
    table = table_of(stream, texts, seed)
    cuts = np.searchsorted(np.sort(stream.arrival), edges)
    for number in range(len(edges) - 1):
        path = folder / f"{number:04d}.parquet"
        piece = table.slice(cuts[number], cuts[number + 1] - cuts[number])
        # Plain encodings that every reader has; one row group, so that no reader splits a file.
        pq.write_table(
            piece, path, row_group_size=max(1, len(piece)), compression="snappy", store_schema=False
        )
        # Spark's file source takes files by their time of modification.
        os.utime(path, (START / 1000 + number, START / 1000 + number))


# -- generators -----------------------------------------------------------------------------------


def _ordinary(
    rng: np.random.Generator, rows: int, key: Numbers, start: int, length: int, delay: int, behind: int = 0
) -> Stream:
    event = START + start + rng.integers(0, length, rows)
    late = rng.exponential(delay, rows).astype(np.int64)
    return Stream(event, event + late + behind, key)


def uniform(
    rows: int, keys: float = 0.5, length: int = HOUR, right_delay: int = 20 * SECOND
) -> tuple[Stream, Stream]:
    """Keys uniform over a number that follows the number of rows; seconds of delay."""
    left, right = np.random.default_rng(1), np.random.default_rng(2)
    count = max(1, round(rows * keys))
    return (
        _ordinary(left, rows, left.integers(0, count, rows), 0, length, 2 * SECOND),
        _ordinary(right, rows, right.integers(0, count, rows), 0, length, right_delay),
    )


def lagging(rows: int, behind: int = 2 * HOUR) -> tuple[Stream, Stream]:
    """Six hours of two streams, of which the right one is always two hours of event time behind."""
    left, right = np.random.default_rng(3), np.random.default_rng(4)
    keys = max(1, rows // 20)
    return (
        _ordinary(left, rows, left.integers(0, keys, rows), 0, 6 * HOUR, 2 * SECOND),
        _ordinary(right, rows, right.integers(0, keys, rows), -behind, 6 * HOUR, 2 * SECOND, behind),
    )


def skewed(exponent: float, both: bool, keys: int = 100_000) -> Callable[[int], tuple[Stream, Stream]]:
    """Keys of the left side, or of both, by Zipf's law."""
    share = np.cumsum(1 / np.arange(1, keys + 1) ** exponent)

    def make(rows: int) -> tuple[Stream, Stream]:
        left, right = np.random.default_rng(5), np.random.default_rng(6)
        hot = np.searchsorted(share, left.random(rows) * share[-1])
        other = np.searchsorted(share, right.random(rows) * share[-1])
        return (
            _ordinary(left, rows, hot, 0, HOUR, 2 * SECOND),
            _ordinary(right, rows, other if both else right.integers(0, keys, rows), 0, HOUR, 2 * SECOND),
        )

    return make


def sessions(rows: int) -> tuple[Stream, Stream]:
    """A day of what clients did with a server's answers: the application of the join paper's evaluation."""
    return tuple(  # type: ignore[return-value]
        Stream(side.event_time // 1000, side.arrival_time // 1000, side.key)
        for side in search_sessions(2 * rows, days=1)
    )


def series(rows: int, keys: int = 100) -> tuple[Stream, Stream]:
    """Readings of a hundred machines, one a second each; no two of one machine at the same time."""
    left, right = np.random.default_rng(8), np.random.default_rng(9)
    sides = []
    for rng in (left, right):
        key = rng.integers(0, keys, rows)
        event = START + np.sort(rng.integers(0, max(1, rows * SECOND // keys), rows))
        _, once = np.unique(key * (1000 * HOUR) + (event - START), return_index=True)
        key, event = key[np.sort(once)], event[np.sort(once)]
        sides.append(Stream(event, event + rng.exponential(2 * SECOND, len(event)).astype(np.int64), key))
    return sides[0], sides[1]


# -- the list -------------------------------------------------------------------------------------

_WIDE = tuple(f"text{number:02d}" for number in range(19))

WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload(
            "uniform",
            "uniform keys, 1 hour, delays 2 s and 20 s, +-3 min, LEFT",
            2_000_000,
            uniform,
            Query("left", -3 * MINUTE, 3 * MINUTE, 35 * SECOND, 6 * MINUTE),
        ),
        Workload(
            "sessions",
            "client and server streams of the join paper, 1 day, -3 h to +30 min, LEFT",
            500_000,
            sessions,
            Query("left", -3 * HOUR, 30 * MINUTE, 2 * HOUR, 35 * SECOND),
            files=24,
            whole=True,
        ),
        Workload(
            "lag",
            "6 hours, right side 2 hours behind, +-3 min, LEFT",
            500_000,
            lagging,
            Query("left", -3 * MINUTE, 3 * MINUTE, 35 * SECOND, 35 * SECOND),
            files=24,
            whole=True,
        ),
        Workload(
            "skew1",
            "Zipf 1.0 on the left, +-60 s, INNER",
            500_000,
            skewed(1.0, both=False),
            Query("inner", -MINUTE, MINUTE, 35 * SECOND, 35 * SECOND),
        ),
        Workload(
            "skew1both",
            "Zipf 1.0 on both sides, +-1 s, INNER",
            500_000,
            skewed(1.0, both=True),
            Query("inner", -SECOND, SECOND, 35 * SECOND, 35 * SECOND),
        ),
        Workload(
            "skew2",
            "Zipf 2.0 on the left, +-60 s, INNER",
            500_000,
            skewed(2.0, both=False),
            Query("inner", -MINUTE, MINUTE, 35 * SECOND, 35 * SECOND),
        ),
        Workload(
            "skew2both",
            "Zipf 2.0 on both sides, +-50 ms, INNER",
            500_000,
            skewed(2.0, both=True),
            Query("inner", -50, 50, 35 * SECOND, 35 * SECOND),
        ),
        Workload(
            "wide",
            "1 kB rows of 20 payload columns, +-3 min, LEFT",
            200_000,
            uniform,
            Query("left", -3 * MINUTE, 3 * MINUTE, 35 * SECOND, 6 * MINUTE, _WIDE),
        ),
        Workload(
            "series",
            "100 machines, a reading per second, the last right one of 10 s, LEFT",
            500_000,
            series,
            Query("asof", -10 * SECOND, 0, 35 * SECOND, 35 * SECOND),
        ),
    )
}
"""All workloads by name."""
