"""Every rule: the pair of programs in its fixture, and the meaning of both on DuckDB."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings

from braid.lang.compiler import compile_text
from braid.plan.logical.planner import RULES, Rule, rewrite
from braid.plan.logical.rules.separate_operators import separate_operators
from braid.plan.logical.rules.separate_sides import separate_sides
from braid.plan.show.pql import print_query
from tests.plan import fixtures
from tests.plan.oracle import answer, rows
from tests.plan.programs import other_programs, programs, random_inputs

CASES = [(rule, pair) for rule in RULES for pair in fixtures.read(rule.__name__)]
IDS = [f"{rule.__name__}: {pair.title}" for rule, pair in CASES]
OTHER_JOINS = re.compile("MATCH|TIMESERIES|LOOKUP|DEDUPLICATE")
"""What DuckDB does not have in this form; `test_series`, `test_lookups` and `tests/operators` compare it."""
SELF_CONTAINED = RULES[: [rule.__name__ for rule in RULES].index("cut_views")]
"""The rules after these read and write categories, which DuckDB does not have."""


@pytest.mark.parametrize(("rule", "pair"), CASES, ids=IDS)
def test_rewrites_the_fixture(rule: Rule, pair: fixtures.Pair) -> None:
    assert print_query(rule(compile_text(pair.before))) == pair.after


# A join that has been taken apart is still a join: what takes it apart leaves only finished ones alone.
@pytest.mark.parametrize(
    ("rule", "pair"), [case for case in CASES if case[0] not in (separate_sides, separate_operators)]
)
def test_leaves_its_own_result_alone(rule: Rule, pair: fixtures.Pair) -> None:
    once = rule(compile_text(pair.before))
    assert print_query(rule(once)) == pair.after


@pytest.mark.parametrize(
    "pair",
    [pair for rule, pair in CASES if rule in SELF_CONTAINED and not OTHER_JOINS.search(pair.before)],
    ids=lambda pair: pair.title,
)
def test_fixture_means_the_same(pair: fixtures.Pair) -> None:
    inputs = random_inputs(5)
    before, after = (_answer(text, inputs) for text in (pair.before, pair.after))
    assert before == after
    assert before


def test_every_rule_has_a_fixture_and_every_fixture_a_rule() -> None:
    names = {rule.__name__ for rule in RULES}
    assert {path.stem for path in fixtures.ROOT.glob("*.sql")} == names
    assert all(fixtures.read(name) for name in names)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs().filter(lambda text: "MATCH" not in text))
def test_each_step_means_the_same(text: str) -> None:
    inputs = random_inputs(7)
    query = compile_text(text)
    expected = _answer(print_query(query), inputs)
    for rule in SELF_CONTAINED:
        query = rule(query)
        assert _answer(print_query(query), inputs) == expected, rule.__name__


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs() | other_programs())
def test_a_rewritten_query_is_left_alone(text: str) -> None:
    query = rewrite(compile_text(text))
    assert print_query(rewrite(query)) == print_query(query)


def _answer(text: str, inputs: object) -> dict[str, object]:
    text = text.replace("STORAGE SCRIBE(category = 'result')", 'STORAGE SCRIBE(category = "result")')
    text = text.replace("STORAGE SCRIBE(category = 'second')", 'STORAGE SCRIBE(category = "second")')
    return {name: rows(table) for name, table in answer(text, inputs).items()}
