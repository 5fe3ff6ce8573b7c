"""Offsets as they are stored."""

import json

import numpy as np
import pytest

from braid.core.errors import StateError
from braid.core.positions import Position
from braid.core.times import MINUTE
from braid.eventtime.ascending import Ascending
from braid.eventtime.calibrated import Calibrated
from braid.eventtime.offset import Offset
from braid.testing.streams import MONDAY, chunk_of
from tests.eventtime.pacing.two_inputs import START_OFFSET, config, next_offset


def test_offsets_are_small_plain_json_and_say_what_is_wrong_with_others() -> None:
    rng = np.random.default_rng(5)
    sides = [
        [chunk_of(MONDAY + i * MINUTE - rng.exponential(MINUTE, 500).astype(int), i) for i in range(400)]
        for _ in range(2)
    ]
    for estimator in (Calibrated(), Ascending()):
        setup = config(left=estimator, right=estimator)
        offset = next_offset(START_OFFSET, *sides, setup, now=0).offset
        text = offset.to_text()
        assert Offset.from_text(text) == offset
        assert len(text) < 1_500
    wrong = json.loads(text)
    for change in (
        {"version": 3},
        {"inputs": None},
        {"inputs": {"left": None}},
        {"drained": 1},
        {"growth": "x"},
    ):
        with pytest.raises(StateError):
            Offset.from_json({**wrong, **change})
    for junk in ("", "[]", "{}"):
        with pytest.raises(StateError, match="not an offset"):
            Offset.from_text(junk)


def test_offsets_of_version_1_are_read() -> None:
    side = {"commit": 3, "chunk": 2, "stream_time": 7, "active": 9, "estimator": None}
    old = {"version": 1, "left": side, "right": {**side, "commit": 4}, "growth": 2, "drained": False}
    found = Offset.from_json(old)
    assert [one.position for one in found.inputs.values()] == [Position(3, 2), Position(4, 2)]
    assert Offset.from_json(found.to_json()) == found
