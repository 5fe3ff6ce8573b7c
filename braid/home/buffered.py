"""How many rows a join buffers: told by its sink after every micro-batch, read by sources that pace by it."""

from __future__ import annotations

from pathlib import Path

from braid.home.files import read_json, write_json


def write_buffered(path: Path, rows: int) -> None:
    """Tell how many rows a join buffers."""
    write_json(path, {"rows": rows})


def read_buffered(path: Path) -> int:
    """How many rows a join buffers; 0 if nobody has told yet."""
    stored = read_json(path)
    return int(stored["rows"]) if isinstance(stored, dict) else 0
