"""Stages mean what the program says: run in process, they give the rows that DuckDB gives for the text."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from braid.api import compile_text
from tests.plan.interpreter import run
from tests.plan.oracle import answer, rows
from tests.plan.programs import COLUMNS, MODES, TYPES, programs, random_inputs

ON = {
    "key": "l.k = r.k AND r.t BETWEEN l.t - INTERVAL '3 minutes' AND l.t + INTERVAL '2 minutes'",
    "residual": (
        "l.k = r.k AND r.t > l.t - INTERVAL '4 minutes' AND l.t + INTERVAL '4 minutes' >= r.t "
        "AND (l.n + 1 > r.m OR r.s = 'a') AND NOT (l.s <=> r.s) AND l.x IS NOT NULL AND r.n > 0"
    ),
    "time only": "r.t BETWEEN l.t AND l.t + INTERVAL '30 seconds' AND ABS(l.n - r.n) <= 1",
    "float key": "l.x = r.x AND r.t BETWEEN l.t - INTERVAL '9 minutes' AND l.t",
}


@pytest.mark.parametrize("on", ON)
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode or "MATCH ALL")
@pytest.mark.parametrize("kind", TYPES)
def test_every_join_type_and_match_mode(kind: str, mode: str, on: str) -> None:
    select = (
        "SELECT l.id AS lid, r.id AS rid, ABS(l.x) AS x, COALESCE(r.s, 'none') AS s, 'v1' AS version, "
        f"l.n + r.n AS n\nFROM a AS l {kind} JOIN b AS r\nON {ON[on]}\n{mode}"
    )
    where = "WHERE l.n IS NULL OR r.n IS NULL OR l.n + r.n < 7"
    assert _check(_program(f"{select}\n{where}"), seed=1, least=40)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs(), st.integers(0, 10_000))
def test_random_programs(text: str, seed: int) -> None:
    _check(text, seed)


def _program(select: str) -> str:
    inputs = "\n".join(f'CREATE INPUT TABLE {t} ({COLUMNS}) FROM SCRIBE("{t}");' for t in "ab")
    table = 'CREATE TABLE result AS\nSELECT * FROM joined\nSTORAGE SCRIBE (category = "result");'
    return f"CREATE APPLICATION app;\n{inputs}\nCREATE VIEW joined AS {select};\n{table}\n"


def _check(text: str, seed: int, least: int = 0) -> int:
    """Compare; returns the number of rows."""
    inputs = random_inputs(seed, least)
    expected = answer(text, inputs)
    found = run(compile_text(text).plan, inputs, seed)
    for name, table in expected.items():
        assert rows(found[name]) == rows(table), text
    return sum(table.num_rows for table in expected.values())
