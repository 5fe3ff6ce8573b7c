"""The examples of docs/language.md compile, and its table of errors is complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from braid.lang import compile_text
from braid.lang.errors import CODES
from braid.lang.types.functions import OUTSIDE, REPLAY
from braid.plan.logical.planner import plan

TEXT = (Path(__file__).parents[2] / "docs" / "language.md").read_text()
PROGRAM = re.findall(r"^```sql\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)[0]
PREAMBLE = "".join(re.findall(r"^CREATE (?:APPLICATION|INPUT TABLE).*?;$", PROGRAM, re.DOTALL | re.MULTILINE))
ROWS = [re.split(r"(?<!\\)\|", line)[1:-1] for line in TEXT.splitlines() if line.startswith("| ")]
EXAMPLES = {row[0].strip(): row[-1].strip().strip("`").replace("\\|", "|") for row in ROWS if len(row) > 1}
EXAMPLES = {name: example for name, example in EXAMPLES.items() if example.startswith(("CREATE", "SELECT"))}


def test_the_program_at_the_top():
    query = compile_text(PROGRAM, "language.md")
    assert query.warnings == ()
    assert [c.type for c in query.views[0].columns] == ["timestamp", "string", "string", "string", "double"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name):
    example = EXAMPLES[name]
    if example.startswith("SELECT"):
        example = f"CREATE VIEW example AS {example}; CREATE TABLE t AS SELECT * FROM example STORAGE CONSOLE"
    query = compile_text(f"{PREAMBLE} {example};", "language.md")
    assert query.application.name == "ads"
    assert plan(query).stages or not query.tables


def test_there_is_an_example_for_every_clause_of_the_grammar():
    grammar = TEXT.split("```text\n")[1].split("```")[0]
    shown = " ".join(EXAMPLES.values()) + PROGRAM + "CREATE APPLICATION ads WITH (shards = 4)"
    for word in set(re.findall(r"\b[A-Z]{2,}\b", grammar)):
        assert re.search(rf"\b{word}\b", shown), word


def test_all_error_codes_are_listed():
    listed = {row[0].strip().strip("`"): row[1].strip() for row in ROWS if row[0].strip().startswith("`PQL")}
    assert listed == CODES


def test_functions_that_the_page_says_are_refused_are():
    assert {"reflect", "java_method", "try_reflect", "input_file_name", "current_user"} <= OUTSIDE
    assert {"rand", "uuid", "now", "current_timestamp"} <= REPLAY
