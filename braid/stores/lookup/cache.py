"""Rows that were looked up before, decoded, found again by whole batches of keys."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from braid.stores.lookup.rows import Ints, Mask


class RowCache:
    """Decoded rows, of which those that were not used for longest make room for new ones.

    Parameters
    ----------
    empty
        A batch of no rows; its first column is the encoded key, the others are up to the user.
    capacity
        Bytes that `trim` leaves at most.
    """

    def __init__(self, empty: pa.RecordBatch, capacity: int) -> None:
        self.rows = empty
        self._capacity = capacity
        self._hashes: Ints = np.empty(0, np.int64)
        self._row: Ints = np.empty(0, np.int64)
        self._used: Ints = np.empty(0, np.int64)
        self._tick = 0

    def find(self, hashes: Ints, keys: pa.LargeBinaryArray) -> Ints:
        """Where in `rows` each key is, or -1; keys are in order of their hashes."""
        self._tick += 1
        if not len(self._hashes) or not len(hashes):
            return np.full(len(hashes), -1, np.int64)
        place = np.minimum(np.searchsorted(self._hashes, hashes), len(self._hashes) - 1)
        found = np.where(self._hashes[place] == hashes, self._row[place], -1)
        hits = np.flatnonzero(found >= 0)
        # Different keys may have one hash. Of such, one is found here, and the others are read every time.
        stored = self.rows.column(0).take(pa.array(found[hits]))
        same: Mask = pc.equal(stored, keys.take(pa.array(hits))).to_numpy(zero_copy_only=False)
        found[hits[~same]] = -1
        self._used[found[found >= 0]] = self._tick
        return found

    def add(self, hashes: Ints, rows: pa.RecordBatch) -> int:
        """Add rows, in order of their hashes; returns where in `rows` the first of them is."""
        first: int = self.rows.num_rows
        place = np.searchsorted(self._hashes, hashes, side="right")
        self._hashes = np.insert(self._hashes, place, hashes)
        self._row = np.insert(self._row, place, first + np.arange(len(hashes)))
        self._used = np.append(self._used, np.full(len(hashes), self._tick))
        self.rows = pa.concat_batches([self.rows, rows]) if first else rows
        return first

    def trim(self) -> None:
        """Keep within the capacity; moves rows, so that what `find` and `add` returned is void."""
        while self.rows.num_rows and self.rows.nbytes > self._capacity:
            keep: Mask = np.zeros(self.rows.num_rows, np.bool_)
            # Half at once, so that rows are moved a bounded number of times.
            keep[np.argsort(self._used, kind="stable")[(len(keep) + 1) // 2 :]] = True
            moved = np.cumsum(keep) - 1
            kept = keep[self._row]
            self._hashes, self._row = self._hashes[kept], moved[self._row[kept]]
            self._used = self._used[keep]
            self.rows = self.rows.filter(pa.array(keep))
