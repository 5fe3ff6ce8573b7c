"""What Braid reads in the checkpoint of a query: Spark writes `commits/<batch>` after a micro-batch."""

from __future__ import annotations

from pathlib import Path


def next_batch(checkpoint: Path) -> int:
    """The micro-batch that a query will run next."""
    folder = checkpoint / "commits"
    done = [int(path.name) for path in folder.iterdir() if path.name.isdigit()] if folder.is_dir() else []
    return max(done, default=-1) + 1
