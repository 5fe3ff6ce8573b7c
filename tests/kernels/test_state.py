"""Join state: exact round trips, and damage or foreign versions are refused."""

from __future__ import annotations

import json
import zlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.core.errors import StateError
from braid.core.positions import Position
from braid.core.side import Side
from braid.kernels.state import InputState, OperatorState, decode, encode

blocks = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), unique=True).map(sorted)


@st.composite
def sides(draw: st.DrawFn) -> InputState:
    flags = draw(st.lists(st.integers(0, 7), max_size=50))
    ids = np.array(draw(blocks), np.int64).reshape(-1, 2)
    last = draw(st.none() | st.builds(Position, st.integers(0, 9), st.integers(0, 9)))
    return InputState(ids, np.array(flags, np.uint8), draw(st.integers(-(2**62), 2**62)), last)


@given(sides(), sides(), st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_round_trip(left: InputState, right: InputState, numbers: list[int]) -> None:
    state = OperatorState(
        {"left": left, "right": right},
        {"left": -5, "right": 2**62},
        choices={"row": np.array(numbers, np.int64)},
    )
    again = decode(encode(state))
    for mine, theirs in ((left, again.inputs["left"]), (right, again.inputs["right"])):
        assert (mine.blocks, mine.floor, mine.last) == (theirs.blocks, theirs.floor, theirs.last)
        assert mine.flags.tolist() == theirs.flags.tolist()
    assert again.times == {"left": -5, "right": 2**62}
    assert again.choices["row"].tolist() == numbers


def test_is_small_whatever_the_window_holds() -> None:
    """A million window rows of a LEFT join without flags are a handful of numbers."""
    blocks = np.array([(commit, 0) for commit in range(10_000)], np.int64)
    right = InputState(blocks, np.zeros(10**6, np.uint8), 0)
    assert len(encode(OperatorState({"left": InputState(), "right": right}, dict.fromkeys(Side, 0)))) < 600


def test_damage_and_foreign_versions_are_refused() -> None:
    data = bytearray(encode(OperatorState(dict.fromkeys(Side, InputState()), dict.fromkeys(Side, 0))))
    with pytest.raises(StateError, match="starts with b'BRS9'"):
        decode(b"BRS9" + bytes(data[4:]))
    data[20] ^= 1
    with pytest.raises(StateError, match="checksum"):
        decode(bytes(data))


def test_ranges_in_the_header_are_still_read() -> None:
    """What `BRS2` and, of joins only, `BRJ1` looked like."""
    plane = pa.compress(np.packbits([0, 1, 1, 0, 1]).tobytes(), codec="zstd", asbytes=True)
    left = {"ranges": [[3, 0, 1], [5, 2, 2]], "rows": 5, "bits": {"0": [0, len(plane), 1]}, "floor": 7}
    right = {"ranges": [], "rows": 0, "bits": {}, "floor": 9, "last": [4, 1]}
    shared = {"wall_time": 11, "choices": {}}
    inputs = {"left": {**left, "last": None}, "right": right}
    for magic, header in (
        (b"BRS2", {"inputs": inputs, "times": {"left": 1, "right": 2}, **shared}),
        (b"BRJ1", {**inputs, "left_time": 1, "right_time": 2, **shared}),
    ):
        head = json.dumps(header).encode()
        body = len(head).to_bytes(4, "little") + head + plane
        state = decode(magic + zlib.crc32(body).to_bytes(4, "little") + body)
        assert state.inputs["left"].blocks == ((3, 0), (3, 1), (5, 2))
        assert state.inputs["left"].flags.tolist() == [0, 1, 1, 0, 1]
        assert (state.inputs["right"].floor, state.inputs["right"].last) == (9, Position(4, 1))
        assert state.times == {"left": 1, "right": 2}


def test_earlier_versions_find_the_clock_that_they_expect() -> None:
    data = encode(OperatorState(dict.fromkeys(Side, InputState()), dict.fromkeys(Side, 0)))
    size = int.from_bytes(data[8:12], "little")
    assert json.loads(data[12 : 12 + size])["wall_time"] == 0
