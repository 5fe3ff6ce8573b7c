"""RocksDB as the lookup store uses it: raw bytes, whole batches, and errors that name the folder.

Every change is one batch without a write-ahead log, flushed to a file of its own. The flush is what makes it
durable and visible, all or nothing, also to readers in other processes, who open the files read-only.
RocksDB's other way of following a writer, a secondary instance, was tried and is not safe: rows that it
holds in memory from the write-ahead log hide newer ones that the writer has flushed since, and where a file
is damaged or gone it silently serves an older state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice, takewhile
from pathlib import Path
from typing import cast

import pyarrow as pa
from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    DBCompactionStyle,
    DBCompressionType,
    Options,
    Rdict,
    WriteBatch,
    WriteOptions,
)

from braid.core.errors import CorruptError, StoreError
from braid.stores.lookup.keys import DATA
from braid.stores.lookup.rows import ENCODED

VERSION = b"\0version"
"""The record with the number of changes."""
SWEPT = b"\0swept"
"""The record with the time of the last sweep."""
WRITER = b"\0writer "
"""With the name of a writer, the record with the last batch that it wrote."""
OUTCOME = b"\0outcome "
"""With a kind of count and the name of a writer, the record with what became of the rows of that batch."""
NO_KEYS = pa.array([], ENCODED)
SCAN_ROWS = 65_536
_GET_ROWS = 1_024
"""Keys per call: of 256 to 65,536, this is where RocksDB answers most per second."""
_BLOCK_CACHE = 64 << 20
_MEMTABLE = 64 << 20
_FILES = 8
"""Files of about one size that are merged into one: more means less rewriting and more places to look."""
_BLOOM_BITS = 10
_ATTEMPTS = 50


def block_cache() -> Cache:
    """Memory for blocks of files; it may outlive the databases that use it."""
    return Cache(_BLOCK_CACHE)


class Database:
    """One open folder of RocksDB files."""

    def __init__(self, folder: Path, access: AccessType, cache: Cache, *, create: bool = False) -> None:
        self.where = str(folder)
        with naming(self.where):
            self._db = Rdict(self.where, _options(cache, create), access_type=access)

    @classmethod
    def write(cls, folder: Path, *, create: bool = False) -> Database:
        """Open for writing; one process at a time."""
        return cls(folder, AccessType.read_write(), block_cache(), create=create)

    @classmethod
    def read(cls, folder: Path, cache: Cache) -> Database:
        """Open the state as it is now, for reading, while another process may be writing."""
        for _ in range(_ATTEMPTS):
            before = _manifest(folder)
            try:
                return cls(folder, AccessType.read_only(False), cache)
            except CorruptError:
                # A writer removes files that it has merged, but first it takes them out of the manifest.
                if _manifest(folder) == before:
                    raise
        raise StoreError("the table's files keep changing while they are opened", where=str(folder))

    def get(self, keys: Sequence[bytes]) -> pa.LargeBinaryArray:
        """The row of each key; NULL where there is none. Fastest for keys in order."""
        found: list[bytes | None] = []
        with naming(self.where):
            for start in range(0, len(keys), _GET_ROWS):
                found += self._db.get([*keys[start : start + _GET_ROWS]]) or ()
        return pa.array(found, ENCODED)

    def record(self, key: bytes) -> int | None:
        """One of the table's own records."""
        with naming(self.where):
            value = self._db.get(key)
        return None if value is None else _number(value)

    def records(self) -> dict[bytes, int]:
        """All of the table's own records."""
        with naming(self.where):
            items = cast(Iterator[tuple[bytes, bytes]], self._db.items())
            return {name: _number(value) for name, value in takewhile(lambda item: item[0] < DATA, items)}

    def put(self, keys: pa.LargeBinaryArray, rows: pa.LargeBinaryArray, records: Mapping[bytes, int]) -> None:
        """Store rows and records: durable when this returns, and never in part."""
        batch = WriteBatch(raw_mode=True)
        for key, row in zip(keys.to_pylist(), rows.to_pylist(), strict=True):
            batch.put(key, row)
        self._write(batch, records)

    def remove(self, keys: pa.LargeBinaryArray, records: Mapping[bytes, int]) -> None:
        """Remove rows and store records, like `put`."""
        batch = WriteBatch(raw_mode=True)
        for key in keys.to_pylist():
            batch.delete(key)
        self._write(batch, records)

    def scan(self) -> Iterator[tuple[pa.LargeBinaryArray, pa.LargeBinaryArray]]:
        """Keys and rows in batches, in order of keys."""
        items = self._db.items(from_key=DATA)
        last: bytes | None = None
        while True:
            with naming(self.where):
                part = list(islice(items, SCAN_ROWS))
            if not part:
                break
            keys, rows = zip(*part, strict=True)
            last = keys[-1]
            yield pa.array(keys, ENCODED), pa.array(rows, ENCODED)
        self._check_end(last)

    def compact(self) -> None:
        """Merge all files into one."""
        with naming(self.where):
            self._db.compact_range(None, None)

    @property
    def rows(self) -> int:
        """About how many rows there are."""
        return self._db.property_int_value("rocksdb.estimate-num-keys") or 0

    @property
    def size(self) -> int:
        """Size of the files."""
        return self._db.property_int_value("rocksdb.total-sst-files-size") or 0

    def close(self) -> None:
        """Let go of the files."""
        with naming(self.where):
            self._db.close()

    def _write(self, batch: WriteBatch, records: Mapping[bytes, int]) -> None:
        for key, value in records.items():
            batch.put(key, value.to_bytes(8, "little", signed=True))
        options = WriteOptions()
        options.disable_wal = True  # type: ignore[method-assign,assignment] # a property, whatever the stub says
        with naming(self.where):
            self._db.write(batch, options)
        self._flush()

    def _flush(self) -> None:
        with naming(self.where):
            self._db.flush()

    def _check_end(self, last: bytes | None) -> None:
        """Raise if an iteration that ended after `last` ended at damage: its iterators do not tell."""
        with naming(self.where):
            check = self._db.iter()
            check.seek(DATA if last is None else last)
            if last is not None and check.valid():
                check.next()
            check.status()


def _number(value: bytes) -> int:
    return int.from_bytes(value, "little", signed=True)


@contextmanager
def naming(where: str) -> Iterator[None]:
    """Turn RocksDB's errors, which are bare exceptions, into errors that name the folder."""
    try:
        yield
    except Exception as error:
        if "orruption" in str(error):
            raise CorruptError(
                f"the table's files are damaged: {error}",
                where=where,
                hint="restore the folder from a copy, or load the table again with --replace",
            ) from error
        raise StoreError(
            f"the table's files cannot be used: {error}",
            where=where,
            hint="check that the folder is there, who owns it, and that the disk is not full",
        ) from error


def _options(cache: Cache, create: bool) -> Options:
    blocks = BlockBasedOptions()
    blocks.set_block_cache(cache)
    blocks.set_bloom_filter(_BLOOM_BITS, False)
    options = Options(raw_mode=True)
    options.create_if_missing(create)
    options.set_block_based_table_factory(blocks)
    options.set_compression_type(DBCompressionType.none())
    options.set_compaction_style(DBCompactionStyle.universal())
    options.set_level_zero_file_num_compaction_trigger(_FILES)
    options.set_write_buffer_size(_MEMTABLE)
    # Files stay open, so that a reader can go on while the writer merges and removes them.
    options.set_max_open_files(-1)
    options.set_keep_log_file_num(2)
    return options


def _manifest(folder: Path) -> tuple[str, int, int] | None:
    """What changes whenever the set of files does."""
    try:
        name = (folder / "CURRENT").read_text().strip()
        found = (folder / name).stat()
    except OSError:
        return None
    return name, found.st_size, found.st_mtime_ns
