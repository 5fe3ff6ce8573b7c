"""One lookup table: reading and writing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

import pyarrow as pa

from braid.stores.lookup.incoming import Rows
from braid.stores.lookup.reader import CACHE_BYTES, Found, LookupReader, ProbeKeys
from braid.stores.lookup.settings import Settings
from braid.stores.lookup.writer import LookupWriter, Upserted


class LookupTable:
    """A keyed table. Get one from `LookupStore`; close it, or use `with`, to let others write.

    Reading needs no lock. The first write takes the table's, and raises `StoreError` if another has it.
    """

    def __init__(
        self, folder: Path, columns: Sequence[str] | None = None, cache_bytes: int = CACHE_BYTES
    ) -> None:
        self.folder = folder
        self._reader = LookupReader(folder, columns, cache_bytes)
        self._writer: LookupWriter | None = None

    @property
    def name(self) -> str:
        """Its name."""
        return self.folder.name

    @property
    def settings(self) -> Settings:
        """Key and value columns, and the time to live, as they are now."""
        return self._reader.settings

    @property
    def size(self) -> tuple[int, int]:
        """About how many rows it has, and the bytes of its files."""
        return self._reader.size

    def get(self, keys: ProbeKeys, now_us: int) -> Found:
        """Look up a key per row: see `LookupReader.get`."""
        return self._reader.get(keys, now_us)

    def scan(self, now_us: int) -> Iterator[pa.RecordBatch]:
        """All rows, key columns first, batch by batch."""
        return self._reader.scan(now_us)

    def upsert(
        self, rows: Rows, *, writer: str, batch_id: int, now_us: int, times: pa.Array | None = None
    ) -> Upserted:
        """Store a batch exactly once: see `LookupWriter.upsert`."""
        return self.writer().upsert(rows, writer=writer, batch_id=batch_id, now_us=now_us, times=times)

    def writer(self) -> LookupWriter:
        """The table's writer, which keeps all others out until the table is closed."""
        if self._writer is None:
            self._writer = LookupWriter(self.folder)
        return self._writer

    def close(self) -> None:
        """Let go of files, memory and the right to write."""
        self._reader.close()
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def __enter__(self) -> LookupTable:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
