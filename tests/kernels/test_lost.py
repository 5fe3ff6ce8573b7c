"""Limits that lose rows: every lost row is listed, and the lists explain the difference exactly."""

from __future__ import annotations

import dataclasses
from collections import Counter

from hypothesis import given, settings

from braid.core.side import Side
from braid.kernels.join.spec import JoinType, MatchMode
from tests.kernels.join.harness import Case, expected
from tests.kernels.join.strategies import cases

ALL = (MatchMode.ALL,)


def matched(case: Case) -> set[tuple[object, object]]:
    return {pair for pair in case.pairs if None not in pair}


def oracle(case: Case) -> set[tuple[object, object]]:
    """All pairs that match, whichever of them a single-match join would choose."""
    inner = dataclasses.replace(case.spec, type=JoinType.INNER, match=MatchMode.ALL)
    return set(expected(dataclasses.replace(case, spec=inner)))


def check_padding(case: Case) -> None:
    """A row is padded, once, exactly when it was emitted with no partner and its side is an outer one."""
    for side, index, blocks in ((Side.LEFT, 0, case.left), (Side.RIGHT, 1, case.right)):
        alone = {row["id"] for rows in blocks for row in rows} - {pair[index] for pair in matched(case)}
        padded = [pair[index] for pair in case.pairs.elements() if pair[1 - index] is None]
        assert Counter(padded) == (Counter(alone) if case.spec.type.pads(side) else Counter())


@given(cases(matches=ALL, late=frozenset(Side)))
@settings(max_examples=50, deadline=None)
def test_matches_that_late_rows_lose_are_counted(case: Case) -> None:
    case.run()
    missing = oracle(case) - matched(case)
    assert matched(case) <= oracle(case)
    assert len(missing) == case.counts.lost_matches
    late = [entry for entry in case.lost if entry[1].startswith("late")]
    assert sum(entry[3] for entry in late) == len(missing)
    listed = {row for _, _, row, _, _ in late}
    assert listed <= {row for pair in missing for row in pair}
    assert all(listed.intersection(pair) for pair in missing)
    check_padding(case)


@given(cases(matches=ALL, caps=True))
@settings(max_examples=50, deadline=None)
def test_caps_lose_what_arrives_after_the_eviction_and_nothing_else(case: Case) -> None:
    case.run()
    arrivals = case.arrivals()
    evicted = {row: step for _, reason, row, _, step in case.lost if reason.startswith("capped")}
    never = len(case.steps)
    missing = {
        (left, right)
        for left, right in oracle(case)
        if arrivals[right] > evicted.get(left, never) or arrivals[left] > evicted.get(right, never)
    }
    assert oracle(case) - matched(case) == missing
    assert len(evicted) == case.lost_rows("capped")
    check_padding(case)


@given(cases(caps=True))
@settings(max_examples=50, deadline=None)
def test_caps_never_emit_a_row_both_matched_and_padded(case: Case) -> None:
    case.run()
    assert matched(case) <= oracle(case)
    check_padding(case)


@given(cases(types=(JoinType.INNER, JoinType.LEFT), matches=ALL, late=frozenset({Side.LEFT})))
@settings(max_examples=50, deadline=None)
def test_rows_beyond_retention_are_listed(case: Case) -> None:
    case.forget = True
    case.run()
    beyond = {row for _, reason, row, _, _ in case.lost if reason == "beyond_retention"}
    missing = oracle(case) - matched(case)
    assert {left for left, _ in missing} <= beyond
    assert case.lost_rows("beyond_retention") == len(beyond)
    check_padding(case)


@given(cases(types=(JoinType.LEFT,), matches=ALL, late=frozenset({Side.LEFT}), late_lookup=False))
@settings(max_examples=30, deadline=None)
def test_without_lookups_late_left_rows_are_padded_and_counted(case: Case) -> None:
    case.run()
    losers = {left for left, _ in oracle(case) - matched(case)}
    assert len(losers) <= case.counts.inputs["left"].late
    assert case.counts.rescued == 0
    check_padding(case)


@given(cases(matches=ALL))
@settings(max_examples=30, deadline=None)
def test_rows_without_a_usable_time_are_padded_or_listed(case: Case) -> None:
    case.run()
    for side, blocks in ((Side.LEFT, case.left), (Side.RIGHT, case.right)):
        bad = Counter(row["id"] for rows in blocks for row in rows if row["__time"] is None)
        listed = Counter(
            row for which, reason, row, _, _ in case.lost if (which, reason) == (side, "invalid_time")
        )
        assert case.counts.inputs[side].invalid == bad.total()
        assert listed == (Counter() if case.spec.type.pads(side) else bad)
