"""How seldom stages run, by a latency objective."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from braid.core.times import SECOND
from braid.engine.cadence import (
    PATIENCE,
    Cadences,
    Due,
    cadence,
    input_due,
    operator_due,
    share_of,
    until_due,
)
from braid.home.cadence import AT_ONCE, Cadence

JOIN = {"j.left": [], "j.right": [], "j": ["j.left", "j.right"]}
CHAIN = {**JOIN, "k.left": ["j"], "k.right": [], "k": ["k.left", "k.right"]}
STAGES = st.dictionaries(st.sampled_from(list(CHAIN)), st.lists(st.integers(0, 5 * SECOND), max_size=8))


def test_what_micro_batches_take_is_taken_off_the_objective() -> None:
    assert cadence(3 * SECOND, JOIN, {}) == Cadence(interval=2_700_000, look=75_000, patience=PATIENCE)
    took = {"j.left": [300_000, 200_000], "j.right": [100_000], "j": [250_000]}
    found = cadence(3 * SECOND, JOIN, took)
    assert found.grace == 150_000
    assert found.interval == 2_700_000 - 300_000 - 250_000 - 150_000
    assert cadence(3 * SECOND, {"only": []}, {"only": [1]}).grace == 0


def test_an_objective_that_cannot_be_met_makes_nothing_run_without_a_pause() -> None:
    assert cadence(SECOND, JOIN, {"j": [2 * SECOND]}).interval == SECOND // 5
    assert cadence(0, JOIN, {}) == Cadence(look=10_000, patience=PATIENCE)


def test_the_longest_chain_counts() -> None:
    short = cadence(10 * SECOND, JOIN, {stage: [SECOND] for stage in JOIN})
    long = cadence(10 * SECOND, CHAIN, {stage: [SECOND] for stage in CHAIN})
    assert short.interval - long.interval == 2 * SECOND + long.grace


@given(STAGES, st.integers(0, 20 * SECOND), st.sampled_from(list(CHAIN)), st.integers(0, SECOND))
def test_longer_micro_batches_never_make_inputs_wait_longer(
    took: dict[str, list[int]], objective: int, stage: str, more: int
) -> None:
    before = cadence(objective, CHAIN, took)
    slower = {**took, stage: [*took.get(stage, []), max(took.get(stage, []), default=0) + more]}
    after = cadence(objective, CHAIN, slower)
    assert 0 <= after.interval <= before.interval <= objective
    # A row is read after an interval at most, and then waits for micro-batches and for other inputs.
    along = [["j.left", "j"], ["j.left", "j", "k.left", "k"], ["k.right", "k"]]
    for path in along:
        waits = before.grace * sum(len(CHAIN[one]) > 1 for one in path)
        total = before.interval + waits + sum(max(took.get(one, []), default=0) for one in path)
        assert total <= objective or before.interval <= objective // 5


@given(st.lists(st.integers(1, 400_000), min_size=50, max_size=50), st.integers(1, 40), st.floats(0, 1))
def test_inputs_are_read_once_per_interval_at_the_same_moments(
    steps: list[int], twentieths: int, share: float
) -> None:
    interval = twentieths * SECOND // 20
    told = Cadence(interval=interval, phase=int(interval * share))
    now, last, began = 1_700_000_000 * SECOND, 0, []
    for step in steps:
        now += step
        if input_due(True, now, last, told) is Due.NOW:
            last = now
            began.append((now - told.phase) // interval)
        else:
            left = until_due(now, told)
            assert 0 < left <= interval
            assert input_due(True, now + left - 1, last, told) is Due.LATER
            assert input_due(True, now + left, last, told) is Due.NOW
    assert len(set(began)) == len(began)
    assert input_due(False, now + SECOND * 60, last, told) is Due.NOTHING


def test_applications_read_their_inputs_at_moments_of_their_own() -> None:
    shares = sorted(share_of(f"app{number:02}") for number in range(16))
    assert 0 <= shares[0] < shares[-1] < 1
    assert max(after - before for before, after in pairwise(shares)) < 0.3
    assert cadence(3 * SECOND, JOIN, {}, 0.5).phase == 1_350_000


def test_without_an_interval_inputs_are_read_at_once() -> None:
    assert input_due(True, 5, 5, AT_ONCE) is Due.NOW


def test_an_operator_waits_a_little_for_its_other_inputs() -> None:
    told = Cadence(interval=SECOND, grace=100)
    assert operator_due([False, False], 1000, 0, told) is Due.NOTHING
    assert operator_due([True, True], 1000, 1000, told) is Due.NOW
    assert operator_due([True, False], 1099, 1000, told) is Due.LATER
    assert operator_due([True, False], 1100, 1000, told) is Due.NOW
    assert operator_due([True], 1000, 1000, told) is Due.NOW


def test_the_driver_tells_what_has_changed_and_lets_nothing_wait_in_a_hurry(tmp_path: Path) -> None:
    path = tmp_path / "cadence.json"
    cadences = Cadences(path, 3 * SECOND, JOIN)
    cadences.tell()
    first = Cadence.read(path)
    written = path.stat().st_ino
    # The first micro-batches of a run say nothing of those that follow.
    for _ in range(2):
        cadences.took("j", {"triggerExecution": 2_000})
    # What the source has waited for is no part of a micro-batch.
    cadences.took("j", {"triggerExecution": 900, "latestOffset": 900})
    cadences.tell()
    assert path.stat().st_ino == written
    cadences.took("j", {"triggerExecution": 900, "latestOffset": 400})
    with cadences.hurried():
        assert Cadence.read(path) == AT_ONCE
        with cadences.hurried():
            cadences.tell()
        assert Cadence.read(path) == AT_ONCE
    later = Cadence.read(path)
    assert first is not None
    assert later is not None
    assert first.interval - later.interval == SECOND // 2
    for _ in range(8):
        cadences.took("j", {"triggerExecution": 10, "latestOffset": 10})
    cadences.tell()
    assert Cadence.read(path) == first
