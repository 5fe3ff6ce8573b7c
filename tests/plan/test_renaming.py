"""A plan under another name is what its program would be with that name."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

from braid import api
from braid.plan.renaming import renamed
from tests.plan.programs import other_programs, programs

EXAMPLES = sorted(Path(__file__).parents[2].glob("examples/*/app.sql"))


def check(text: str) -> None:
    plan = api.compile_text(text).plan
    of_name = f"CREATE APPLICATION {plan.application}"
    assert text.count(of_name) == 1
    other = api.compile_text(text.replace(of_name, "CREATE APPLICATION other")).plan
    assert renamed(plan, "other") == other
    assert renamed(other, plan.application) == plan


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_examples(path: Path) -> None:
    check(path.read_text())


@given(programs())
def test_random_programs(text: str) -> None:
    check(text)


@given(other_programs())
def test_other_random_programs(text: str) -> None:
    check(text)
