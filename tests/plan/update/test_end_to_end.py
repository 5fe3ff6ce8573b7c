"""Every rule that lets a program go on has a test on Spark with rows in flight."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from braid.plan.update.rules import STAGE_RULES, UPDATE_RULES, Verdict

TESTS = Path(__file__).parents[2] / "spark"
NAMING = ("test_update_rules.py", "test_updates.py")
"""Tests that say what changes, by the names of rules, and compare that with what is found."""
OTHERS = {
    "join.match": "test_types_and_match_modes_change_and_rows_in_flight_stay",
    "join.consume": "test_types_and_match_modes_change_and_rows_in_flight_stay",
    "join.kind": "test_a_join_becomes_one_of_another_kind",
}
"""Rules whose tests do not name them."""
RULES = UPDATE_RULES | STAGE_RULES


def named() -> set[str]:
    """Texts in the tests."""
    trees = (ast.parse((TESTS / file).read_text()) for file in NAMING)
    nodes = (node for tree in trees for node in ast.walk(tree))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def functions() -> set[str]:
    trees = (ast.parse((TESTS / file).read_text()) for file in NAMING)
    return {node.name for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize(
    "kind", [kind for kind, rule in RULES.items() if rule.verdict is not Verdict.REFUSED]
)
def test_a_rule_is_tried_on_spark(kind: str) -> None:
    assert kind in named() or OTHERS.get(kind) in functions()


def test_tests_name_rules_that_there_are() -> None:
    kinds = {kind.partition(".")[0] for kind in RULES}
    pattern = re.compile(rf"({'|'.join(kinds)})\.[a-z_]+")
    assert {text for text in named() if pattern.fullmatch(text)} <= set(RULES)
