"""Where golden homes are."""

from __future__ import annotations

from pathlib import Path

GOLDEN = Path(__file__).parent
SAVEPOINT = "golden"
"""Name of the savepoint in homes that have one."""
LOCKS = ("run.lock", ".lock", ".upkeep.lock", "LOCK")


def versions() -> list[str]:
    """Their names, oldest first."""
    return sorted(path.parent.name for path in GOLDEN.glob("*/home.tar.gz"))


def with_savepoints() -> list[str]:
    """Those that have a savepoint: the first version could not make any."""
    return [name for name in versions() if name != "v1"]
