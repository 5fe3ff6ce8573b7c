"""Columns that Braid adds to the rows of a program, or gives a meaning of its own."""

from __future__ import annotations

HASH = "__hash"
"""A signed 64-bit hash of the key; the blocks of a category that has it are sorted by it."""
TIME = "__time"
"""Event time in microseconds since the epoch, int64; NULL when missing or invalid."""
LIVE = "__live"
"""Optional boolean: rows where it is not true can never match and are decided at once."""
KEY = "__key"
"""Prefix of the key columns: `__key0`, `__key1`, ...; a NULL in any of them never matches."""
NOTE = "__note"
"""What is wrong with a row, or what an operator has to say besides rows: see `braid.engine.notes`."""
RAW_COLUMN = "value"
"""The one column of a category of raw records."""
FILE_PATH = "path"
FILE_CLOCK = "now"
"""Columns of a frame that names files: the path, and the clock of the micro-batch in microseconds."""
