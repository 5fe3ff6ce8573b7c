"""What pending rows have chosen, in few bytes: the address in the log of one row each.

Rows of a block are in order of their hashes, and a row chooses one of its own hash. So the rows that are
chosen of a block ascend for as long as those that have chosen them are of one block, too: the steps from one
to the next are short. Which rows have chosen one is told by a flag already, but for exceptions.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from braid.kernels.arrays import Flags, Ints, Mask

CHOOSER = "left"
"""The number of the row that has chosen, among the flags of its input."""
ADDRESS = ("commit", "chunk", "row")
"""Where the chosen row is in the log."""


def pack(choices: Mapping[str, Ints], flags: Flags) -> dict[str, bytes]:
    """Bytes that compress well; `flags` are those of the rows that choose, each of which has one choice."""
    chosen = np.zeros(len(flags), np.bool_)
    chosen[choices[CHOOSER]] = True
    order = np.argsort(choices[CHOOSER], kind="stable")
    commit, chunk, row = (choices[name][order] for name in ADDRESS)
    steps = np.diff(row[_by_block(commit, chunk)], prepend=np.int64(0))
    # Steps back are made odd numbers, so that the short ones of either direction are small.
    columns = (commit, chunk, (steps << 1) ^ (steps >> 63))
    address = {name: _planes(values) for name, values in zip(ADDRESS, columns, strict=True)}
    return {CHOOSER: np.packbits(chosen ^ _expected(flags)).tobytes(), **address}


def unpack(packed: Mapping[str, bytes], flags: Flags) -> dict[str, Ints]:
    """Read back what `pack` gave, in order of the rows that have chosen."""
    exceptions = np.unpackbits(np.frombuffer(packed[CHOOSER], np.uint8), count=len(flags)).astype(np.bool_)
    chooser = np.flatnonzero(exceptions ^ _expected(flags))
    commit, chunk, steps = (_from_planes(packed[name], len(chooser)) for name in ADDRESS)
    row = np.empty_like(steps)
    row[_by_block(commit, chunk)] = np.cumsum((steps.view(np.uint64) >> 1).view(np.int64) ^ -(steps & 1))
    return {CHOOSER: chooser, **dict(zip(ADDRESS, (commit, chunk, row), strict=True))}


def _expected(flags: Flags) -> Mask:
    """Rows that have chosen, as a rule: those with the lowest flag, which tells that a row has a match."""
    expected: Mask = flags & 1 > 0
    return expected


def _by_block(commit: Ints, chunk: Ints) -> Ints:
    """Puts choices in order of the blocks that they are in."""
    # NumPy sorts short integers by their bits, which is several times as fast.
    return np.lexsort((_above_least(chunk), _above_least(commit)))


def _above_least(values: Ints) -> npt.NDArray[np.unsignedinteger]:
    """By how much each value is greater than the least one, in the smallest type that has room for all."""
    above = (values - values.min(initial=2**63 - 1)).view(np.uint64)
    smallest: npt.NDArray[np.unsignedinteger] = above.astype(np.min_scalar_type(int(above.max(initial=0))))
    return smallest


def _planes(values: Ints) -> bytes:
    """The least value, and how much greater each one is: first the lowest byte of all, then the next one."""
    above = _above_least(values)
    least = np.array([values.min(initial=2**63 - 1)])
    return least.tobytes() + above.view(np.uint8).reshape(-1, above.itemsize).T.tobytes()


def _from_planes(data: bytes, count: int) -> Ints:
    least, planes = np.frombuffer(data, np.int64, 1), np.frombuffer(data, np.uint8, offset=8)
    wide = np.zeros((count, 8), np.uint8)
    if count:
        wide[:, : len(planes) // count] = planes.reshape(-1, count).T
    values: Ints = wide.view(np.int64).reshape(-1) + least
    return values
