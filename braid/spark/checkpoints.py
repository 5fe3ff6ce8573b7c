"""What Braid reads in the checkpoint of a streaming query; Spark tells a sink nothing but a batch number.

Spark writes `offsets/<batch>` before a micro-batch runs, whose last line is the end offset of the only source
as JSON, and `commits/<batch>` after it. Both are there, complete, whenever a sink commits that batch.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def offset_of(checkpoint: str | Path, batch: int) -> dict[str, Any]:
    """The offset up to which a micro-batch reads."""
    lines = (Path(checkpoint) / "offsets" / str(batch)).read_text().splitlines()
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def next_batch(checkpoint: Path) -> int:
    """The micro-batch that a query will run next."""
    folder = checkpoint / "commits"
    done = [int(path.name) for path in folder.iterdir() if path.name.isdigit()] if folder.is_dir() else []
    return max(done, default=-1) + 1
