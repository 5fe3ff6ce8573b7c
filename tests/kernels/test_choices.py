"""Choices come back as they were, whatever they are, and take few bytes where they are what a join makes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from braid.kernels.arrays import Flags, Ints
from braid.kernels.choices import ADDRESS, CHOOSER, pack, unpack

numbers = st.integers(0, 3) | st.integers(-(2**63), 2**63 - 1)


@st.composite
def choices(draw: st.DrawFn) -> tuple[dict[str, Ints], Flags]:
    flags = np.array(draw(st.lists(st.integers(0, 15), max_size=20)), np.uint8)
    choosers = draw(st.permutations(range(len(flags))))
    values = {CHOOSER: choosers[: draw(st.integers(0, len(choosers)))]}
    for name in ADDRESS:
        size = len(values[CHOOSER])
        values[name] = draw(st.lists(numbers, min_size=size, max_size=size))
    return {name: np.array(some, np.int64) for name, some in values.items()}, flags


@given(choices())
def test_round_trip(drawn: tuple[dict[str, Ints], Flags]) -> None:
    some, flags = drawn
    again = unpack(pack(some, flags), flags)
    order = np.argsort(some[CHOOSER])
    assert {name: values.tolist() for name, values in again.items()} == {
        name: values[order].tolist() for name, values in some.items()
    }


def test_a_choice_takes_about_ten_bits() -> None:
    """16 blocks of 8,192 rows choose among 8 such blocks, all in order of hashes; two of five have a choice.

    Which of the 8 blocks takes 3 bits, and which of its rows some 6. They were 60 before rows were packed.
    """
    rng = np.random.default_rng(1)
    flags = (rng.random(16 * 8192) < 0.4).astype(np.uint8)
    chooser = np.flatnonzero(flags)
    chunk = rng.integers(0, 8, len(chooser))
    row = np.empty_like(chunk)
    for block in range(16):
        for other in range(8):
            these = (chooser // 8192 == block) & (chunk == other)
            row[these] = np.sort(rng.integers(0, 8192, np.count_nonzero(these)))
    values = {CHOOSER: chooser, "commit": np.full_like(chunk, 7), "chunk": chunk, "row": row}
    packed = pack(values, flags)
    size = sum(len(pa.compress(data, codec="zstd", asbytes=True)) for data in packed.values())
    assert size * 8 < 10.5 * len(chooser)
