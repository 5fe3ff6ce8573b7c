"""Arrays that kernels pass around."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]

Values = TypeVar("Values", Ints, Flags)


def extended(values: Values, parts: Sequence[Values]) -> Values:
    """Append to an array, in place where the array it is a view of has room; a sixteenth is kept as room."""
    size, more = len(values), sum(map(len, parts))
    if not more:
        return values
    room = values.base if isinstance(values.base, np.ndarray) else values
    if len(room) < size + more:
        room = np.empty((size + more) * 17 // 16, values.dtype)
        room[:size] = values
    np.concatenate(parts, out=room[size : size + more])
    return room[: size + more]


def spans(begin: Ints, end: Ints) -> Ints:
    """All numbers from each of `begin` up to, not including, that of `end`, one span after the other."""
    size = end - begin
    ends = np.cumsum(size)
    total = int(ends[-1]) if len(ends) else 0
    numbers: Ints = np.arange(total) + np.repeat(begin - (ends - size), size)
    return numbers
