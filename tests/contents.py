"""What a home holds, to tell whether anything was touched."""

from __future__ import annotations

import hashlib

from braid.home.paths import Home


def contents(home: Home) -> dict[str, str]:
    """A hash of every file, and the name of every folder."""
    return {
        str(path.relative_to(home.root)): hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file()
        else "folder"
        for path in home.root.rglob("*")
    }
