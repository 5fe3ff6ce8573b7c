"""States of shards, cut by hand: two blocks, two shards with hashes below and above zero."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace

import numpy as np
import pytest

from braid.core.errors import StateError
from braid.core.hashes import ALL_HASHES, HashRange
from braid.core.positions import Position
from braid.kernels.recut import Cutting, ShardState
from braid.kernels.state import InputState, OperatorState, decode, encode

GONE = 4
FIRST, SECOND = Position(3, 0), Position(3, 1)
HASHES = {
    "left": {FIRST: [-5, -1, 0, 4, 9], SECOND: [-7, 4]},
    "right": {FIRST: [-5, -1, -1, 0, 0, 4], SECOND: [0]},
}
BELOW, ABOVE = (ALL_HASHES[0], -1), (0, ALL_HASHES[1])


def below(name: str, block: Position, low: int) -> int:
    return bisect_left(HASHES[name][block], low)


CUTTING = Cutting(below, GONE)


def of(blocks: dict[Position, list[int]]) -> InputState:
    """The state of an input: its blocks, with the flags of their rows."""
    flags = [flag for some in blocks.values() for flag in some]
    positions = np.array(list(blocks), np.int64).reshape(-1, 2)
    return InputState(positions, np.array(flags, np.uint8), 17, SECOND)


def shard(hashes: HashRange, blocks: dict[Position, list[int]], /, **choices: list[int]) -> ShardState:
    chosen = {name: np.array(values, np.int64) for name, values in choices.items()}
    return ShardState(
        hashes, OperatorState({"left": of(blocks), "right": of({})}, {"left": 1, "right": 2}, chosen)
    )


def flags(shards: list[ShardState], wanted: HashRange) -> dict[Position, list[int]]:
    """The blocks of the left input of a shard with the wanted hashes, with their flags."""
    one = CUTTING.cut(shards, wanted).inputs["left"]
    left = one.flags.tolist()
    found = {}
    for block in one.blocks:
        size = sum(wanted[0] <= found <= wanted[1] for found in HASHES["left"][block])
        found[block], left = left[:size], left[size:]
    assert not left
    return found


def test_states_are_put_together_and_cut_at_other_hashes() -> None:
    shards = [
        shard(ABOVE, {FIRST: [0, GONE, 1], SECOND: [1]}),
        shard(BELOW, {FIRST: [1, GONE]}),
    ]
    whole = CUTTING.cut(shards, ALL_HASHES)
    assert flags(shards, ALL_HASHES) == {FIRST: [1, GONE, 0, GONE, 1], SECOND: [GONE, 1]}
    assert (whole.times, whole.inputs["left"].floor) == ({"left": 1, "right": 2}, 17)
    assert decode(encode(whole)).inputs["left"].blocks == (FIRST, SECOND)
    assert flags(shards, (-1, 3)) == {FIRST: [GONE, 0]}
    assert flags(shards, (-6, -1)) == {FIRST: [1, GONE]}
    # No row of theirs matters to anybody.
    assert flags(shards, (-4, -1)) == {}
    assert CUTTING.cut(shards, BELOW) is shards[1].state


def test_choices_have_other_numbers_and_addresses() -> None:
    shards = [
        shard(BELOW, {FIRST: [0, 0]}, left=[1], commit=[3], chunk=[0], row=[2], time=[50]),
        shard(
            ABOVE,
            {FIRST: [0, GONE, 0], SECOND: [0]},
            left=[0, 3],
            commit=[3, 3],
            chunk=[1, 0],
            row=[0, 2],
            time=[60, 70],
        ),
    ]
    whole = CUTTING.cut(shards, ALL_HASHES).choices
    assert {name: values.tolist() for name, values in whole.items()} == {
        "left": [1, 2, 6],
        "commit": [3, 3, 3],
        "chunk": [0, 1, 0],
        "row": [2, 0, 5],
        "time": [50, 60, 70],
    }
    part = CUTTING.cut(shards, (-1, 0)).choices
    assert (part["left"].tolist(), part["row"].tolist()) == ([0, 1], [1, 0])


def test_of_an_input_that_all_have_a_row_matters_if_it_does_to_one() -> None:
    cutting = replace(CUTTING, whole="left")
    shards = [
        shard(BELOW, {FIRST: [0, GONE, 1, GONE, GONE]}),
        shard(ABOVE, {FIRST: [1, GONE, 0, 0, GONE], SECOND: [0, 0]}),
    ]
    state = cutting.cut(shards, (-3, 3)).inputs["left"]
    assert state.blocks == (FIRST, SECOND)
    assert state.flags.tolist() == [1, GONE, 1, 0, GONE, 0, 0]


def test_states_that_do_not_belong_together_are_refused() -> None:
    one, other = shard(BELOW, {FIRST: [0, 0]}), shard(ABOVE, {FIRST: [0, 0, 0]})
    later = other._replace(state=replace(other.state, times={"left": 1, "right": 3}))
    for shards, why in (
        ([one], "no saved state has the hash 0"),
        ([one, later], "not of one step"),
        ([one, shard(ABOVE, {FIRST: [0, 0]})], "knows 2 rows, but the log has 3"),
    ):
        with pytest.raises(StateError, match=why):
            CUTTING.cut(shards, ALL_HASHES)
