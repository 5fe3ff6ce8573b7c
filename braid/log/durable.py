"""The durable steps on a local disk, one system call's worth each.

Everything that the log promises about crashes rests on the order in which `Storage` takes these steps.
They are functions of a module, so that a test can stop a writer before or after any of them.
"""

from __future__ import annotations

import os
from pathlib import Path


def write(path: str, data: bytes) -> None:
    """Write a new file and wait until its content is on the disk."""
    with Path(path).open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync(path: str) -> None:
    """Wait until a file's content, or a folder's list of files, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def link(source: str, target: str) -> None:
    """Give a file a second name; raises `FileExistsError`, and changes nothing, if the name is taken."""
    os.link(source, target)


def replace(source: str, target: str) -> None:
    """Rename a file over another one: whoever looks sees either the old or the new content."""
    os.replace(source, target)  # noqa: PTH105 - the same call by any name, beside its siblings


def remove(path: str) -> None:
    """Remove a file if it is there."""
    Path(path).unlink(missing_ok=True)
