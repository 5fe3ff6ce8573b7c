"""Single-match joins: which right row a left row takes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from braid.kernels.arrays import Ints, Mask
from braid.kernels.choices import ADDRESS
from braid.kernels.join.spec import MatchMode

CHOICE = (*ADDRESS, "time")
"""Attributes of a pending left row that remember its best partner so far: its address, and its time."""


class Candidates(NamedTuple):
    """Pairs of left row numbers (with times) and right addresses (with times)."""

    left: Ints
    left_time: Ints
    commit: Ints
    chunk: Ints
    row: Ints
    time: Ints

    def select(self, which: Mask | Ints) -> Candidates:
        """The pairs that a mask or an index picks."""
        return Candidates(*(values[which] for values in self))


def best(mode: MatchMode, pairs: Candidates) -> Candidates:
    """The best pair of each left row, in order of left row numbers.

    FIRST takes the right row that arrived first. NEAREST takes the least distance in time, EARLIEST and
    LATEST the least and greatest time; ties go to the earlier time, then to the earlier arrival. All are
    functions of the set of candidates, so the answer does not depend on how they were batched.
    """
    rank: list[Ints] = [pairs.row, pairs.chunk, pairs.commit]
    match mode:
        case MatchMode.NEAREST:
            rank += [pairs.time, np.abs(pairs.time - pairs.left_time)]
        case MatchMode.EARLIEST:
            rank += [pairs.time]
        case MatchMode.LATEST:
            rank += [-pairs.time]
    ordered = pairs.select(np.lexsort((*rank, pairs.left)))
    first = np.ones(len(ordered.left), np.bool_)
    first[1:] = ordered.left[1:] != ordered.left[:-1]
    return ordered.select(first)
