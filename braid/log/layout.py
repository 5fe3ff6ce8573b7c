"""Where things are: names of files, and which hashes belong to which shard."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from braid.core.errors import LogError
from braid.core.hashes import HashRange

CATEGORY_FILE = "category.json"
LOCK_FILE = ".lock"
COMMITS = "commits"
DATA = "data"
SEGMENTS = "segments"
TEMP_PREFIX = ".tmp-"
"""Files that start with this were never published; a sweep removes them once they are old."""

MAGIC_LENGTH = 8
"""Bytes of an Arrow file before its schema."""
MAX_SHARDS = 4096
MAX_NAME = 200
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*")
_DIGITS = 20


def check_name(name: str, what: str) -> str:
    """Return `name` if it can be a part of a path on every filesystem, else raise `LogError`."""
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        raise LogError(
            f"{what} {name!r} is not valid",
            hint="use letters, digits, '_', '-' and '.', and start with a letter, a digit or '_'; "
            f"at most {MAX_NAME} in all",
        )
    return name


def commit_path(commit: int) -> str:
    """Path of a commit record, relative to its category."""
    return f"{COMMITS}/{commit:0{_DIGITS}d}.json"


def commit_number(filename: str) -> int | None:
    """The commit that a file name in the folder of commits stands for, if it stands for one."""
    stem, _, extension = filename.partition(".")
    return int(stem) if extension == "json" and len(stem) == _DIGITS and stem.isdigit() else None


def data_path(file: str) -> str:
    """Path of a data file, relative to its category."""
    return f"{DATA}/{file}"


def segment_path(file: str) -> str:
    """Path of a segment, relative to its category."""
    return f"{SEGMENTS}/{file}"


def shard_boundaries(shards: int) -> npt.NDArray[np.int64]:
    """Lowest hash of each shard, ascending; shards are equal, contiguous ranges of signed 64-bit hashes."""
    if not 1 <= shards <= MAX_SHARDS:
        raise LogError(f"{shards} shards are not possible", hint=f"choose between 1 and {MAX_SHARDS}")
    return np.array([-(2**63) + (i * 2**64) // shards for i in range(shards)], dtype=np.int64)


def shard_range(shard: int, shards: int) -> HashRange:
    """The hashes of a shard."""
    if not 0 <= shard < shards:
        raise LogError(f"shard {shard} does not exist", hint=f"there are {shards} shards, counted from 0")
    return -(2**63) + (shard * 2**64) // shards, -(2**63) + ((shard + 1) * 2**64) // shards - 1
