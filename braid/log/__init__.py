"""The block log: durable, append-only categories of hash-sorted Arrow blocks."""

from braid.log.category import Category
from braid.log.compaction import Compacted, CompactionConfig
from braid.log.hashing import hash_rows
from braid.log.layout import shard_boundaries, shard_range
from braid.log.log import Log
from braid.log.reader import Reader
from braid.log.records import Block, Chunk, Commit, FileEntry, TimeStats
from braid.log.statistics import CategoryStatistics
from braid.log.writer import CHUNK_ROWS, write_file

__all__ = [
    "CHUNK_ROWS",
    "Block",
    "Category",
    "CategoryStatistics",
    "Chunk",
    "Commit",
    "Compacted",
    "CompactionConfig",
    "FileEntry",
    "Log",
    "Reader",
    "TimeStats",
    "hash_rows",
    "shard_boundaries",
    "shard_range",
    "write_file",
]
