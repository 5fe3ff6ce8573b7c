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
from braid.kernels.state import BITS, InputState, OperatorState, decode, encode

blocks = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), unique=True).map(sorted)


@st.composite
def sides(draw: st.DrawFn) -> InputState:
    flags = draw(st.lists(st.integers(0, 2**BITS - 1), max_size=50))
    ids = np.array(draw(blocks), np.int64).reshape(-1, 2)
    last = draw(st.none() | st.builds(Position, st.integers(0, 9), st.integers(0, 9)))
    return InputState(ids, np.array(flags, np.uint8), draw(st.integers(-(2**62), 2**62)), last)


@given(sides(), sides())
def test_round_trip(left: InputState, right: InputState) -> None:
    chooser = np.flatnonzero(left.flags == 1)
    choices = {name: number + chooser for number, name in enumerate(("left", "commit", "chunk", "row"))}
    state = OperatorState({"left": left, "right": right}, {"left": -5, "right": 2**62}, choices)
    again = decode(encode(state))
    for mine, theirs in ((left, again.inputs["left"]), (right, again.inputs["right"])):
        assert (mine.blocks, mine.floor, mine.last) == (theirs.blocks, theirs.floor, theirs.last)
        assert mine.flags.tolist() == theirs.flags.tolist()
    assert again.times == {"left": -5, "right": 2**62}
    for name, values in choices.items():
        assert again.choices[name].tolist() == values.tolist()


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


def test_choices_as_they_are_in_memory_are_still_read() -> None:
    """What `BRS3` looked like, and those before it, with event times that are in the log as well."""
    choices = {"left": [1, 4], "commit": [3, 5], "chunk": [0, 2], "row": [7, 6], "time": [50, 60]}
    packed = [
        pa.compress(np.array(values, np.int64).tobytes(), codec="zstd", asbytes=True)
        for values in choices.values()
    ]
    starts = np.cumsum([0, *map(len, packed)]).tolist()
    where = {name: [starts[n], len(packed[n]), 16] for n, name in enumerate(choices)}
    left = {"ranges": [], "rows": 5, "bits": {}, "floor": 7, "last": None}
    right = {"ranges": [], "rows": 0, "bits": {}, "floor": 9, "last": None}
    header = {"inputs": {"left": left, "right": right}, "times": {"left": 1, "right": 2}, "choices": where}
    head = json.dumps(header).encode()
    body = len(head).to_bytes(4, "little") + head + b"".join(packed)
    del choices["time"]
    for magic in (b"BRS3", b"BRS2"):
        state = decode(magic + zlib.crc32(body).to_bytes(4, "little") + body)
        assert {name: values.tolist() for name, values in state.choices.items()} == choices


def test_earlier_versions_find_the_clock_that_they_expect() -> None:
    data = encode(OperatorState(dict.fromkeys(Side, InputState()), dict.fromkeys(Side, 0)))
    size = int.from_bytes(data[8:12], "little")
    assert json.loads(data[12 : 12 + size])["wall_time"] == 0
