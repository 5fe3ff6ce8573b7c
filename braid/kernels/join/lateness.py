"""How far late rows look back: for how long rows are worth remembering after they are decided."""

from __future__ import annotations

import numpy as np

from braid.kernels.arrays import Ints

COVERED = 0.99
"""Share of late rows whose whole window should be in memory."""


class Lateness:
    """How far below a floor the windows of the other side's late rows reach, in powers of two."""

    def __init__(self) -> None:
        self._seen = np.zeros(64)

    def note(self, depths: Ints) -> None:
        """Late rows have come whose windows reach so far below the floor; all are positive."""
        self._seen += np.bincount(np.ceil(np.log2(depths)).astype(np.int64), minlength=64)[:64]

    def fade(self) -> None:
        """Let what was seen until now count for half as much."""
        self._seen /= 2

    def depth(self) -> int:
        """How far below the floor rows should be remembered; 0 if no row has been late."""
        total = np.cumsum(self._seen)
        return 0 if total[-1] < 1 else 1 << int(np.searchsorted(total, COVERED * total[-1]))
