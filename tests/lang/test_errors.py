"""Every bad program gives exactly the message in its fixture."""

from __future__ import annotations

import pytest

from braid.core.errors import BraidError
from braid.lang import PqlError, compile_text
from braid.lang.errors import CODES
from tests.lang.error_cases import FOLDER, load

CASES = {f"{path.stem}: {case.name}": case for path in sorted(FOLDER.glob("*.txt")) for case in load(path)}


@pytest.mark.parametrize("name", CASES)
def test_rendered_error(name):
    case = CASES[name]
    assert case.rendered() == case.expected


def test_there_are_enough_bad_programs_and_every_code_has_one():
    assert len(CASES) >= 60
    shown = "\n".join(case.expected for case in CASES.values())
    assert sorted(code for code in CODES if f" {code}: " not in shown) == []


def test_every_error_has_a_place_inside_the_program():
    for case in CASES.values():
        try:
            compile_text(case.text)
        except PqlError as error:
            for diagnostic in error.diagnostics:
                start, end = diagnostic.span
                assert 0 <= start < end <= max(len(case.text), 1), case.name


def test_an_error_is_a_braid_error_that_lists_all_diagnostics():
    with pytest.raises(BraidError) as caught:
        compile_text(
            "CREATE APPLICATION a; CREATE VIEW v AS SELECT b FROM c; CREATE VIEW w AS SELECT b FROM d;", "f"
        )
    assert isinstance(caught.value, PqlError)
    assert [d.code for d in caught.value.diagnostics] == ["PQL201", "PQL201"]
    assert str(caught.value).startswith("f:1:")


def test_a_flood_of_errors_is_cut():
    views = "".join(f"CREATE VIEW v{i} AS SELECT b FROM nowhere;\n" for i in range(80))
    with pytest.raises(PqlError, match="and 30 more errors"):
        compile_text("CREATE APPLICATION a;\n" + views)
