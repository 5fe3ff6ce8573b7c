"""Files whose bytes are verified before they are believed: mapped from a local disk, else fetched."""

from __future__ import annotations

import pyarrow as pa

from braid.core.errors import CorruptError
from braid.log.sealed import checksum
from braid.log.storage import Storage, naming

COPIED_BELOW = 1 << 16
"""Parts shorter than this are copied out of a map. Whoever keeps many small blocks would otherwise keep a map
for each of them, of which a process can have 65,530, and the space of files that have been removed."""


class VerifiedFile:
    """An open file of a known size, which gives parts of itself with their checksums verified."""

    def __init__(self, storage: Storage, path: str, size: int) -> None:
        self._where = storage.full(path)
        self._map: pa.Buffer | None = None
        self._verified: set[int] = set()
        with naming(self._where, "open"):
            self._source = storage.filesystem.open_input_file(self._where)
            if self._source.size() != size:
                raise self.corrupt(f"the file has {self._source.size()} bytes, not the {size} written")
            if storage.local:
                with pa.memory_map(self._where) as source:
                    self._map = source.read_buffer()
                self._source.close()

    @property
    def where(self) -> str:
        """Path of the file, for messages."""
        return self._where

    def part(self, offset: int, length: int, expected: int, what: str) -> pa.Buffer:
        """Some bytes, verified: once if they are mapped, else each time they are fetched."""
        found = self.unverified(offset, length)
        if self._map is None or offset not in self._verified:
            if checksum(memoryview(found)) != expected:
                raise self.corrupt(f"the {what} does not have the checksum it was written with")
            self._verified.add(offset)
        if self._map is not None and length < COPIED_BELOW:
            return pa.py_buffer(found.to_pybytes())
        return found

    def unverified(self, offset: int, length: int) -> pa.Buffer:
        """Some bytes whose reader verifies them."""
        if self._map is not None:
            return self._map.slice(offset, length)
        with naming(self._where, "read"):
            return pa.py_buffer(self._source.read_at(length, offset))

    def corrupt(self, what: str) -> CorruptError:
        """The error that something is wrong with the file."""
        return CorruptError(
            what, where=self._where, hint="the file was damaged or cut after it was written; restore a copy"
        )
