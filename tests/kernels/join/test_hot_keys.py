"""Hot keys: looking only at rows within the time bounds gives the same output in the same order."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.core.columns import LIVE, TIME
from braid.core.counters import merge
from braid.core.side import Side
from braid.core.times import FAR
from braid.kernels.join import hot_keys as hot
from braid.kernels.join.runs import Run, probe
from braid.kernels.join.spec import JoinSpec, JoinType, MatchMode
from tests.kernels.join.harness import OUTPUT, Case, Row, expected
from tests.kernels.join.strategies import cases


@pytest.fixture(scope="module")
def forced() -> Iterator[pytest.MonkeyPatch]:
    """Lets a test switch the order by time on for every search, or off."""
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def force(patch: pytest.MonkeyPatch, on: bool) -> None:
    patch.setattr(hot, "HOT_ROWS", 2)
    patch.setattr(hot, "EASY", 0 if on else 1 << 40)


def run_both(patch: pytest.MonkeyPatch, case: Case) -> Case:
    """Run a case with and without the order by time, and compare everything that comes out, in order."""
    force(patch, False)
    plain = dataclasses.replace(case, pairs=case.pairs.copy(), counts=merge([case.counts]), lost=[], steps=[])
    plain.run()
    force(patch, True)
    case.run()
    assert list(case.pairs.items()) == list(plain.pairs.items())
    assert (case.counts, case.lost) == (plain.counts, plain.lost)
    return case


def hot_rows(rng: random.Random, size: int, keys: int, first_id: int) -> list[list[Row]]:
    blocks: list[list[Row]] = [[]]
    for i in range(size):
        blocks[-1].append(
            {
                TIME: rng.choice((None, 0, size)) if rng.random() < 0.1 else i + rng.randint(-6, 6),
                LIVE: True,
                "__key0": str(rng.randrange(keys)),
                "id": first_id + i,
                "x": float(rng.randint(0, 2)),
            }
        )
        if rng.random() < 0.1:
            blocks.append([])
    return blocks


@given(cases(late=frozenset(Side)))
@settings(max_examples=60, deadline=None)
def test_any_join_comes_out_in_the_same_order(forced: pytest.MonkeyPatch, case: Case) -> None:
    run_both(forced, case)


@given(
    st.integers(0, 2**32),
    st.integers(1, 3),
    st.sampled_from(JoinType),
    st.sampled_from(MatchMode),
    st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_hot_keys_and_narrow_bounds(
    forced: pytest.MonkeyPatch, seed: int, keys: int, kind: JoinType, match: MatchMode, consume: bool
) -> None:
    rng = random.Random(seed)
    lower = rng.randint(-5, 3)
    spec = JoinSpec(kind, lower, lower + rng.choice((0, 2, 5)), 1, OUTPUT, match=match)
    if consume:
        spec = dataclasses.replace(spec, match=MatchMode.FIRST, consume=True)
    case = Case(spec, hot_rows(rng, 80, keys, 0), hot_rows(rng, 80, keys, 1000), seed=seed)
    run_both(forced, case)
    if not consume:
        assert case.pairs == expected(case)


EXTREMES = (1 - FAR, -1, 0, 1, 2, 3, FAR - 1)


@given(
    st.lists(st.tuples(st.integers(-1, 1), st.sampled_from(EXTREMES)), max_size=40),
    st.lists(st.tuples(st.integers(-1, 1), st.sampled_from(EXTREMES)), max_size=20),
    st.sampled_from([(-FAR, FAR), (-FAR, 0), (0, FAR), (0, 0), (-1, 1), (2, 3)]),
)
@settings(max_examples=200, deadline=None)
def test_probe_finds_the_pairs_within_bounds(
    forced: pytest.MonkeyPatch,
    rows: list[tuple[int, int]],
    needles: list[tuple[int, int]],
    bounds: tuple[int, int],
) -> None:
    """Whatever the times and bounds, up to the largest: rows are numbered from 7 on, in order of the run."""
    rows, needles = sorted(rows, key=lambda row: row[0]), sorted(needles, key=lambda row: row[0])
    key, time = np.array(rows, np.int64).reshape(-1, 2).T
    low, at = np.array(needles, np.int64).reshape(-1, 2).T
    run = Run(np.ascontiguousarray(key), np.arange(len(key)) + 7)
    near = hot.Near(at, *bounds, time, 7)
    force(forced, True)
    found = [
        (int(needle), int(place))
        for needles_, places in probe(run, low, low, near)
        for needle, place in zip(needles_, places, strict=True)
    ]
    assert found == sorted(found)
    right = {
        (i, j)
        for i, (mine, t) in enumerate(needles)
        for j, (other, u) in enumerate(rows)
        if mine == other and bounds[0] <= u - t <= bounds[1]
    }
    assert right <= set(found)
    assert all(needles[i][0] == rows[j][0] for i, j in found)
    groups = {k: sum(key == k for key, _ in rows) for k in (-1, 0, 1)}
    for i, (mine, _) in enumerate(needles):
        mine_found = sum(needle == i for needle, _ in found)
        # All rows of a group are looked at only where half of them are within bounds.
        inside = sum(needle == i for needle, _ in right)
        assert mine_found == (inside if inside * 2 < groups[mine] and groups[mine] > 1 else groups[mine])


def test_candidates_of_a_hot_key_follow_the_matches() -> None:
    """With the constants as they are: 2,000 rows of one key on each side, 3 of them within bounds."""
    size = 2_000
    run = Run(np.zeros(size, np.int64), np.arange(size))
    key, time = np.zeros(size, np.int64), np.arange(size) * 10
    shuffled = np.random.default_rng(1).permutation(time)
    near = hot.Near(time, -10, 10, shuffled)
    found = list(probe(run, key, key, near))
    assert sum(len(needle) for needle, _ in found) == 3 * size - 2


def test_order_is_made_only_when_it_pays() -> None:
    """One needle looks at the rows themselves; after some more of them, the rows are put in order."""
    run = Run(np.zeros(100, np.int64), np.arange(100))
    one = np.zeros(1, np.int64)
    near = hot.Near(one, 0, 0, np.arange(100))
    sizes = [sum(len(needle) for needle, _ in probe(run, one, one, near)) for _ in range(6)]
    assert sizes == [100] * hot.EASY + [1] * (6 - hot.EASY)
