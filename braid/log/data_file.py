"""A data file as a writer left it, open for reading."""

from __future__ import annotations

import pyarrow as pa

from braid.log.layout import MAGIC_LENGTH, data_path
from braid.log.mapped import VerifiedFile
from braid.log.records import Block, FileEntry
from braid.log.storage import Storage


class DataFile:
    """An open data file whose size, header and footer have been verified, and which verifies its blocks."""

    def __init__(self, storage: Storage, entry: FileEntry) -> None:
        self._file = VerifiedFile(storage, data_path(str(entry.file)), entry.size)
        (length, header_sum), (offset, tail_sum) = entry.header, entry.tail
        header = self._file.part(0, length, header_sum, "header")
        self._file.part(offset, entry.size - offset, tail_sum, "footer")
        self.schema = pa.ipc.read_schema(header.slice(MAGIC_LENGTH))
        self.size = entry.size

    def block(self, block: Block) -> pa.RecordBatch:
        """The rows of a block."""
        found = self._file.part(block.offset, block.length, block.checksum, f"block at byte {block.offset}")
        return pa.ipc.read_record_batch(found, self.schema)

    def blocks(self, entry: FileEntry) -> pa.Buffer:
        """The bytes of all blocks, which follow each other without gaps."""
        return self._file.unverified(entry.header[0], entry.tail[0] - entry.header[0])
