"""Whatever the text, the compiler gives a query or a `PqlError`, and soon."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from braid.lang import PqlError, compile_text
from braid.lang.dialect import MAX_CHARS, MAX_NESTING
from braid.lang.query import Query
from tests.lang.error_cases import FOLDER, load
from tests.lang.programs import FIGURE_3

PROGRAMS = [FIGURE_3, *(case.text for path in sorted(FOLDER.glob("*.txt")) for case in load(path))]
WORDS = sorted(
    {word for program in PROGRAMS for word in program.replace("(", " ( ").replace(",", " , ").split()}
)
SYMBOLS = [
    *"()[]{}<>,.;:'\"`-+*/%|&^~!?@#$\\\n\t\0",
    "--",
    "/*",
    "*/",
    "/*+",
    "::",
    "->",
    "=>",
    "\u00e9",
    "\U0001f600",
]
FUZZ = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def outcome(text: str) -> Query | PqlError:
    """The query or the error; anything else is raised."""
    try:
        return compile_text(text, "fuzz.sql")
    except PqlError as error:
        result = error
    assert result.diagnostics
    assert "fuzz.sql:" in str(result)
    return result


@FUZZ
@given(st.binary(max_size=200))
@example(b"\xff\xfe\x00")
@example(b"CREATE \xe2\x80\x8b APPLICATION a")
def test_random_bytes(data):
    outcome(data.decode("latin-1"))
    outcome(data.decode("utf-8", "replace"))


@FUZZ
@given(st.lists(st.sampled_from(WORDS + SYMBOLS), max_size=60))
def test_random_words(words):
    outcome("CREATE APPLICATION a; " + " ".join(words))


@st.composite
def mutations(draw):
    """A program with some of its words dropped, doubled, swapped or replaced."""
    words = (
        draw(st.sampled_from(PROGRAMS)).replace("(", " ( ").replace(")", " ) ").replace(",", " , ").split(" ")
    )
    for _ in range(draw(st.integers(1, 4))):
        i = draw(st.integers(0, len(words) - 1))
        kind = draw(st.sampled_from(["drop", "double", "swap", "replace", "cut", "insert"]))
        if kind == "drop" and len(words) > 1:
            del words[i]
        elif kind == "double":
            words.insert(i, words[i])
        elif kind == "swap":
            j = draw(st.integers(0, len(words) - 1))
            words[i], words[j] = words[j], words[i]
        elif kind == "cut":
            words[i] = words[i][: draw(st.integers(0, 5))]
        else:
            words[i : i + (kind == "replace")] = [draw(st.sampled_from(WORDS + SYMBOLS))]
    return " ".join(words)


@settings(FUZZ, max_examples=250)
@given(mutations())
def test_mutated_programs(text):
    outcome(text)


@FUZZ
@given(st.sampled_from(PROGRAMS), st.data())
def test_truncated_programs(text, data):
    outcome(text[: data.draw(st.integers(0, len(text)))])


TABLE = "CREATE APPLICATION a; CREATE INPUT TABLE t (x, y) FROM SCRIBE('t');"


def wrapped(expression: str) -> str:
    return TABLE + f"CREATE VIEW v AS SELECT {expression} AS y FROM t;"


N = 3000
HUGE = {
    "parentheses": wrapped("(" * N + "x" + ")" * N),
    "open parentheses": wrapped("(" * N),
    "brackets": wrapped("x" + "[" * N),
    "calls": wrapped("abs(" * N + "x" + ")" * N),
    "calls at the limit": wrapped("abs(" * MAX_NESTING + "x" + ")" * MAX_NESTING),
    "parentheses at the limit": wrapped("(" * MAX_NESTING + "x" + ")" * MAX_NESTING),
    "casts at the limit": wrapped("cast(" * MAX_NESTING + "x" + " as int)" * MAX_NESTING),
    "lambdas at the limit": wrapped("f(x -> " * MAX_NESTING + "x" + ")" * MAX_NESTING),
    "types at the limit": wrapped("CAST(x AS " + "array<" * 200 + "int" + ">" * 200 + ")"),
    "structs": wrapped("CAST(x AS " + "struct<a: " * N + "int" + ">" * N + ")"),
    "declared type": TABLE.replace("x,", f"x {'array<' * N}int{'>' * N},"),
    "minus": wrapped("- " * N + "x"),
    "not": wrapped("NOT " * N + "x"),
    "case": wrapped("CASE WHEN x THEN " * N + "1" + " END" * N),
    "sum": wrapped(" + ".join(["x"] * N)),
    "and": wrapped(" AND ".join(["x"] * N)),
    "or": wrapped(" OR ".join(["x"] * N)),
    "pipes": wrapped(" || ".join(["x"] * N)),
    "dots": wrapped(".".join(["x"] * N)),
    "colons": wrapped("x" + "::int" * N),
    "in list": wrapped("x IN (" + ", ".join(map(str, range(N))) + ")"),
    "intervals": wrapped("x + " + "INTERVAL " * N + "'1' day"),
    "many columns": wrapped(", ".join(f"x AS x{i}" for i in range(N))),
    "long name": wrapped("x" * 100_000),
    "long number": wrapped("9" * 10_000),
    "long interval": wrapped(f"x + INTERVAL '{'9' * 10_000} days'"),
    "many statements": "CREATE APPLICATION a;"
    + "".join(f"CREATE VIEW v{i} AS SELECT x FROM v{i + 1};" for i in range(N // 4)),
    "too long": "-" * (MAX_CHARS + 1),
    "semicolons": ";" * N,
    "commas": wrapped("," * N),
    "quotes": "'" * N,
}


@pytest.mark.parametrize("name", HUGE)
@pytest.mark.timeout(60)
def test_huge_programs_end_soon(name):
    result = outcome(HUGE[name])
    if isinstance(result, Query):
        for statement in result.statements():
            for column in statement.select.columns:
                assert column.expression.copy() == column.expression
                assert column.expression.sql("spark")


def test_long_conjunctions_are_fine():
    text = TABLE + "CREATE TABLE o AS SELECT x FROM t WHERE "
    text += (
        " AND ".join(f"x <> 'v{i}'" for i in range(500))
        + " AND ("
        + " OR ".join(f"y = {i}" for i in range(500))
    )
    query = compile_text(text + ") STORAGE CONSOLE;")
    assert len(query.tables[0].select.where) == 501


def test_too_long_and_too_deep_say_so():
    for name in ("parentheses", "too long", "minus", "sum", "structs", "case"):
        result = outcome(HUGE[name])
        assert isinstance(result, PqlError), name
        assert result.diagnostics[0].code == "PQL103", (name, str(result)[:500])
