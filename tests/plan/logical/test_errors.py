"""What the planner refuses, and that it refuses with a place and a hint."""

from __future__ import annotations

import random
import re
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from braid.api import compile_text, explain
from braid.lang.errors import PqlError
from tests.plan.programs import COLUMNS, other_programs, programs

WINDOW = "r.t BETWEEN l.t - INTERVAL '1 minute' AND l.t + INTERVAL '1 minute'"
INPUTS = "\n".join(f'CREATE INPUT TABLE {t} ({COLUMNS}) FROM SCRIBE("{t}");' for t in "ab")
TABLE = 'CREATE TABLE result AS SELECT * FROM v STORAGE SCRIBE(category = "result");'


def program(on: str, kind: str = "LEFT", columns: str = "l.id AS id", match: str = "") -> str:
    view = f"CREATE VIEW v AS SELECT {columns} FROM a AS l {kind} JOIN b AS r ON {WINDOW} AND {on} {match};"
    return f"CREATE APPLICATION app;\n{INPUTS}\n{view}\n{TABLE}\n"


@pytest.mark.parametrize(
    ("on", "kind", "match", "message"),
    [
        ("l.n * r.n > 3", "LEFT", "", "l.n|a.n * b.n mixes both sides of the join, which a left join"),
        ("l.x + r.x > 1", "FULL", "", "cast both to DECIMAL, BIGINT or TIMESTAMP"),
        ("CONCAT(l.s, r.s) = 'ab'", "INNER", "MATCH NEAREST", "which a MATCH NEAREST cannot evaluate"),
        ("(l.n = r.n) IS NULL", "RIGHT", "", "mixes both sides of the join"),
        ("r.s LIKE l.s", "LEFT", "", "compare an expression over one table"),
    ],
)
def test_a_residual_that_no_slicer_can_prepare(on: str, kind: str, match: str, message: str) -> None:
    with pytest.raises(PqlError, match=message) as error:
        compile_text(program(on, kind, match=match), "app.sql")
    text = str(error.value)
    assert re.match(r"app\.sql:4:\d+: error PQL410: ", text)
    assert "^" in text
    assert "hint: " in text


def test_all_bad_residuals_are_reported_at_once() -> None:
    with pytest.raises(PqlError) as error:
        compile_text(program("l.n * r.n > 3 AND r.s LIKE l.s"))
    assert len(error.value.diagnostics) == 2


@pytest.mark.parametrize("on", ["l.n * r.n > 3", "r.s LIKE l.s", "l.x + r.x > 1"])
def test_an_inner_join_evaluates_any_residual(on: str) -> None:
    assert compile_text(program(on, "INNER")).plan.stages[-1].filter is not None


@pytest.mark.parametrize("name", ["time__", "live__", "key0__", "op__x", "in_left__n"])
def test_reserved_output_names(name: str) -> None:
    with pytest.raises(PqlError, match=f"PQL215.*{name}.*reserved"):
        compile_text(program("l.k = r.k", columns=f"l.id AS {name}"))


def test_names_of_parts_that_are_taken() -> None:
    text = (
        program("l.k = r.k").replace("FROM a AS l", "FROM v__left AS l").replace("TABLE a ", "TABLE v__left ")
    )
    with pytest.raises(PqlError, match="needs the name v__left for a part of itself"):
        compile_text(text)


def test_a_table_in_a_category_of_the_planner() -> None:
    text = program("l.k = r.k") + TABLE.replace("TABLE result", "TABLE again").replace('"result"', '"app.v"')
    with pytest.raises(PqlError, match=r"PQL505: table again stores in category app\.v"):
        compile_text(text)


def test_a_table_that_feeds_itself() -> None:
    text = f'CREATE APPLICATION app;\nCREATE INPUT TABLE a ({COLUMNS}) FROM SCRIBE("a");\n'
    text += 'CREATE TABLE loop AS SELECT * FROM a STORAGE SCRIBE(category = "a");'
    with pytest.raises(PqlError, match=r"PQL206.*loop"):
        compile_text(text)


@pytest.mark.parametrize(("expression", "views"), [("x + x", 40), ("x + 1", 200)])
def test_views_that_blow_up_are_refused(expression: str, views: int) -> None:
    names = ["a", *(f"v{i}" for i in range(views))]
    steps = [f"CREATE VIEW {new} AS SELECT {expression} AS x FROM {old};" for old, new in pairwise(names)]
    text = 'CREATE APPLICATION app;\nCREATE INPUT TABLE a (x BIGINT) FROM SCRIBE("a");\n' + "\n".join(steps)
    with pytest.raises(PqlError, match=r"PQL103.*too large once the views below it are put in"):
        compile_text(f"{text}\nCREATE TABLE t AS SELECT x FROM {names[-1]} STORAGE CONSOLE;")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs() | other_programs(), st.integers(0, 2**20))
def test_a_tampered_rewritten_program_compiles_or_is_refused(text: str, seed: int) -> None:
    tampered = tamper(explain(compile_text(text), "pql"), random.Random(seed))
    try:
        compiled = compile_text(tampered)
    except PqlError:
        return
    assert compile_text(explain(compiled, "pql")).plan == compiled.plan


def tamper(text: str, rng: random.Random) -> str:
    """Drop a statement, or put one word of the program in the place of another."""
    statements = text.split(";\n")
    if rng.random() < 0.3:
        del statements[rng.randrange(1, len(statements))]
        return ";\n".join(statements)
    words = list(re.finditer(r"\b[a-z_]\w*\b", text))
    old, new = rng.choice(words), rng.choice(words)
    return text[: old.start()] + new[0] + text[old.end() :]
