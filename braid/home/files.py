"""Files that several processes read and write: whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import uuid
from pathlib import Path

from braid.core.errors import RunError


def write_json(path: Path, value: object, *, durable: bool = True) -> None:
    """Write a JSON file; see `write_text`."""
    write_text(path, json.dumps(value, separators=(",", ":"), sort_keys=True), durable=durable)


def write_text(path: Path, text: str, *, durable: bool = True) -> None:
    """Write a file so that readers see the old or the new one, never a part.

    What is not durable may be gone after a power failure: enough for what is written anew in every run.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        with fresh.open("w") as file:
            file.write(text)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise


def is_full(error: OSError) -> bool:
    """Whether something could not be written for want of room, which may pass."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def read_json(path: Path) -> object | None:
    """The value of a JSON file; None if there is no such file."""
    try:
        value: object = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:  # not JSON, or not even text
        raise RunError(f"not JSON: {error}", where=str(path), hint="remove the damaged file") from None
    return value
