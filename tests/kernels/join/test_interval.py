"""The interval join gives DuckDB's answer, however its input is cut, ordered and interrupted."""

from __future__ import annotations

from hypothesis import given, settings

from braid.core.side import Side
from braid.kernels.join.spec import JoinType, MatchMode
from tests.kernels.join.harness import Case, expected
from tests.kernels.join.strategies import cases


@given(cases())
@settings(max_examples=100, deadline=None)
def test_drained_output_is_the_sql_join(case: Case) -> None:
    assert case.run().pairs == expected(case)
    assert case.counts.lost_matches == 0
    case.check_decided()


@given(cases(types=(JoinType.LEFT, JoinType.INNER), late=frozenset({Side.LEFT})))
@settings(max_examples=60, deadline=None)
def test_late_left_rows_find_their_partners_in_the_log(case: Case) -> None:
    assert case.run().pairs == expected(case)


@given(cases(types=(JoinType.INNER,), matches=(MatchMode.ALL,), late=frozenset(Side)))
@settings(max_examples=60, deadline=None)
def test_inner_join_with_any_late_rows_loses_nothing(case: Case) -> None:
    assert case.run().pairs == expected(case)


@given(cases(types=(JoinType.RIGHT,), matches=(MatchMode.ALL,), late=frozenset({Side.RIGHT})))
@settings(max_examples=60, deadline=None)
def test_late_right_rows_of_a_right_join_lose_nothing(case: Case) -> None:
    assert case.run().pairs == expected(case)
