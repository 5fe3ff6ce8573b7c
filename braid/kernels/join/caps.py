"""Skew caps: at most so many rows per key and side are kept (section 6.6 of the paper)."""

from __future__ import annotations

import numpy as np

from braid.kernels.arrays import Ints
from braid.kernels.join.buffer import Buffer
from braid.kernels.join.keys import group_codes
from braid.kernels.join.spec import JoinSpec


def overflow(buffer: Buffer, spec: JoinSpec, keys: Ints) -> Ints:
    """Rows to evict so that no key has more than `max_per_key`: those with the oldest event times.

    `keys` are the hashes of the rows just added; other keys cannot have grown. Hashes only preselect:
    rows are counted by their exact keys.
    """
    cap = spec.max_per_key
    if cap is None or not spec.keys or not len(keys):
        return np.empty(0, np.int64)
    rows = buffer.groups(np.unique(keys))
    _, index, counts = np.unique(rows.key, return_inverse=True, return_counts=True)
    if not np.any(counts > cap):
        return np.empty(0, np.int64)
    rows = rows.select((counts > cap)[index])
    code = group_codes([buffer.store.take(name, rows.row) for name in spec.key_columns])
    order = np.lexsort((-rows.row, -buffer.times[rows.row], code))
    sorted_code = code[order]
    starts = np.flatnonzero(np.append(True, sorted_code[1:] != sorted_code[:-1]))
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    return np.sort(rows.row[order[rank >= cap]])
