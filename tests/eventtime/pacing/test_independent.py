"""Inputs that do not wait for each other."""

from braid.core.times import MAX_TIME
from braid.eventtime.offset import Offset
from braid.eventtime.pacing import decide
from braid.eventtime.pacing.config import PacingConfig
from tests.eventtime.pacing.two_inputs import EXACT, stream


def test_inputs_that_need_not_wait_are_read_in_order_of_time() -> None:
    setup = PacingConfig({"a": EXACT, "b": EXACT, "c": EXACT}, batch_rows=250, max_growth=1)
    chunks = {"a": stream(0, 5, 60), "b": stream(1, 2), "c": []}
    offset, admitted = Offset.start(chunks, 0), []
    while (found := decide.next_offset(offset, chunks, setup, now=0, draining=True)).offset is not offset:
        offset = found.offset
        admitted.append({name: one.chunks for name, one in found.inputs.items()})
    assert admitted == [{"a": 1, "b": 1, "c": 0}, {"a": 1, "b": 1, "c": 0}, {"a": 1, "b": 0, "c": 0}]
    assert offset.drained
    assert {one.stream_time for one in offset.inputs.values()} == {MAX_TIME}
