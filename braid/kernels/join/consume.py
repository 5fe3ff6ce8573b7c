"""True one-to-one matching: each left row takes the first right row that no left row before it has taken."""

from __future__ import annotations

import numpy as np

from braid.kernels.arrays import Ints
from braid.kernels.join.pairs import Pairs


def assign(pairs: Pairs, group: Ints) -> Ints:
    """Which pairs are chosen, as an index.

    Left rows choose in order of event time, then arrival, and take the right row with the least event
    time, then arrival. Only rows of one group compete (`group` is given per pair). The n-th left rows of
    all groups choose together, so there are as many rounds as the largest group has left rows.
    """
    order = np.lexsort((pairs.right, pairs.right_time, pairs.left, pairs.left_time, group))
    left, right, group = pairs.left[order], pairs.right[order], group[order]
    new_left = np.append(True, left[1:] != left[:-1])
    new_group = np.append(True, group[1:] != group[:-1])
    count = np.cumsum(new_left) - 1
    turn = count - np.maximum.accumulate(np.where(new_group, count, 0))
    by_turn = np.argsort(turn, kind="stable")
    ends = np.cumsum(np.bincount(turn))
    _, right = np.unique(right, return_inverse=True)
    taken = np.zeros(len(right), np.bool_)
    chosen = []
    for begin, end in zip(np.append(0, ends[:-1]), ends, strict=True):
        some = by_turn[begin:end]
        free = some[~taken[right[some]]]
        first = free[np.append(True, left[free[1:]] != left[free[:-1]])[: len(free)]]
        taken[right[first]] = True
        chosen.append(first)
    picked: Ints = order[np.concatenate(chosen)]
    return picked
