"""Reading a lookup table, in any process, while another one writes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from braid.core.errors import CorruptError, SchemaError, StoreError
from braid.stores.lookup.cache import RowCache
from braid.stores.lookup.database import VERSION, Database, block_cache
from braid.stores.lookup.keys import KeyCodec, Keys
from braid.stores.lookup.rows import ENCODED, Ints, Mask
from braid.stores.lookup.settings import FILE, Settings, read_record
from braid.stores.lookup.values import NEVER, ValueCodec

CACHE_BYTES = 128 << 20
"""Memory for decoded rows, per reader."""
BATCH_ROWS = 65_536
"""Keys that are looked up together."""
_ATTEMPTS = 10

ProbeKeys: TypeAlias = pa.RecordBatch | Sequence[pa.Array] | Mapping[str, pa.Array]
"""Keys to look for: a batch or a mapping by the names of key columns, or arrays in the key's order."""


@dataclass(frozen=True)
class Found:
    """What was found for a batch of keys, row by row."""

    values: pa.Table
    """The columns asked for; NULL where the key is not there."""
    found: Mask
    """Whether the key is there."""


class LookupReader:
    """Looks up batches of keys; sees every change that a writer has finished. Not for several threads.

    Parameters
    ----------
    folder
        The table's folder.
    columns
        Value columns to read; all if None.
    cache_bytes
        Memory for decoded rows.
    """

    def __init__(
        self, folder: Path, columns: Sequence[str] | None = None, cache_bytes: int = CACHE_BYTES
    ) -> None:
        self._folder = folder
        self._wanted = columns
        self._capacity = cache_bytes
        self._blocks = block_cache()
        self._seen: bytes | None = None
        self._snapshot: _Snapshot | None = None

    @property
    def settings(self) -> Settings:
        """The table as it is now."""
        return self._current().settings

    @property
    def size(self) -> tuple[int, int]:
        """About how many rows the table has, and the bytes of its files."""
        database = self._current().database
        return database.rows, database.size

    def get(self, keys: ProbeKeys, now_us: int) -> Found:
        """Look up keys.

        Parameters
        ----------
        keys
            A key per row. One with a NULL in it is not there.
        now_us
            The wall clock, by which rows get too old.
        """
        snapshot = self._current()
        columns = snapshot.probes(keys)
        rows = len(columns[0])
        parts = [
            snapshot.get([column.slice(start, BATCH_ROWS) for column in columns], now_us)
            for start in range(0, max(rows, 1), BATCH_ROWS)
        ]
        return Found(
            pa.Table.from_batches([part for part, _ in parts]), np.concatenate([mask for _, mask in parts])
        )

    def scan(self, now_us: int) -> Iterator[pa.RecordBatch]:
        """All rows, key columns first, batch by batch; in no order that means anything."""
        return self._current().scan(now_us)

    def close(self) -> None:
        """Let go of files and memory; the reader may be used again."""
        self._snapshot = self._seen = None

    def _current(self) -> _Snapshot:
        """The newest state; the one at hand if the table has not changed."""
        for _ in range(_ATTEMPTS):
            seen = read_record(self._folder)
            if self._snapshot is not None and seen == self._seen:
                return self._snapshot
            try:
                self._snapshot, self._seen = self._open(seen), seen
            except StoreError:
                # The folder of a replaced table is removed, but first the settings name another one.
                if read_record(self._folder) == seen:
                    raise
                continue
            return self._snapshot
        raise StoreError("the table keeps changing while it is opened", where=str(self._folder))

    def _open(self, record: bytes) -> _Snapshot:
        settings = Settings.unseal(record, str(self._folder / FILE))
        database = Database.read(self._folder / settings.data, self._blocks)
        check_version(settings, database)
        return _Snapshot(settings, database, self._wanted, self._capacity)


class _Snapshot:
    """One state of a table, with a cache of its own."""

    def __init__(
        self, settings: Settings, database: Database, wanted: Sequence[str] | None, capacity: int
    ) -> None:
        self.settings = settings
        self.database = database
        self._where = database.where
        self._names = list(settings.value.names if wanted is None else wanted)
        unknown = [name for name in self._names if name not in settings.value.names]
        if unknown:
            raise SchemaError(
                f"there is no value column {unknown[0]!r}",
                where=self._where,
                hint=f"value columns: {', '.join(settings.value.names) or 'none'}",
            )
        self._keys = KeyCodec(settings.key)
        self._values = ValueCodec(settings.value)
        self.schema = pa.schema([settings.value.field(name) for name in self._names])
        # In the cache a row is its key, when it was written (NEVER if it is not there), and its values.
        self._cached = pa.schema(
            [pa.field("\0key", ENCODED), pa.field("\0written", pa.int64()), *self.schema]
        )
        self._cache = RowCache(_empty(self._cached), capacity)

    def probes(self, keys: ProbeKeys) -> list[pa.Array]:
        """The key columns to look for, checked."""
        if isinstance(keys, Mapping):
            return self._keys.named(keys, self._where)
        return self._keys.probes(keys, self._where)

    def get(self, columns: Sequence[pa.Array], now_us: int) -> tuple[pa.RecordBatch, Mask]:
        """Rows of a batch of keys, and which of them are there."""
        keys = self._keys.encode(columns)
        place = self._cache.find(keys.hashes, keys.encoded)
        missing = np.flatnonzero(place < 0)
        if len(missing):
            place[missing] = self._read(keys, missing)
        written: Ints = self._cache.rows.column(1).to_numpy()
        alive = written[place] >= self._oldest(now_us)
        index: Ints = np.full(len(columns[0]), -1, np.int64)
        index[keys.rows[alive]] = place[alive]
        found: Mask = index >= 0
        take = pa.array(index, mask=~found)
        values = [column.take(take) for column in self._cache.rows.columns[2:]]
        self._cache.trim()
        return pa.RecordBatch.from_arrays(values, schema=self.schema), found

    def scan(self, now_us: int) -> Iterator[pa.RecordBatch]:
        """All rows that are not too old."""
        schema = pa.schema([*self.settings.key, *self.schema])
        for keys, rows in self.database.scan():
            written, values = self._values.decode(rows, self._names, self._where)
            batch = pa.RecordBatch.from_arrays(
                [*self._keys.decode(keys, self._where), *values], schema=schema
            )
            yield batch.filter(pa.array(written >= self._oldest(now_us)))

    def _oldest(self, now_us: int) -> int:
        """When a row must have been written to be there."""
        return NEVER + 1 if self.settings.ttl is None else now_us - self.settings.ttl

    def _read(self, keys: Keys, missing: Ints) -> Ints:
        """Read keys into the cache; where in it they are."""
        hashes = keys.hashes[missing]
        encoded = keys.encoded.take(pa.array(missing))
        # Equal keys are neighbours, except where hashes collide, and then reading one twice does no harm.
        first: Mask = np.ones(len(missing), np.bool_)
        same = pc.equal(encoded.slice(1), encoded.slice(0, len(encoded) - 1))
        first[1:] = ~same.to_numpy(zero_copy_only=False)
        distinct = encoded.filter(pa.array(first))
        stored = self.database.get(distinct.to_pylist())
        written, values = self._values.decode(stored, self._names, self._where)
        rows = pa.RecordBatch.from_arrays([distinct, pa.array(written), *values], schema=self._cached)
        return self._cache.add(hashes[first], rows) + np.cumsum(first) - 1


def check_version(settings: Settings, database: Database) -> int:
    """The version of what is stored; raise `CorruptError` if it is older than the settings say."""
    version = database.record(VERSION)
    if version is None or version < settings.version:
        raise CorruptError(
            f"the table was at version {settings.version}, but its files are at {version}: changes are lost",
            where=database.where,
            hint="restore the folder from a copy, or load the table again with --replace",
        )
    return version


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], kind) for kind in schema.types], schema=schema)
