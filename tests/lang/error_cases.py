"""Bad programs and their rendered errors, kept in tests/fixtures/lang/errors/*.txt.

A file holds cases of the form

    === name of the case
    program, in which a line `@streams` stands for STREAMS
    --- expected
    rendered errors

Run this file to write the errors that the compiler gives now, then read the difference before committing it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from braid.lang import PqlError, compile_text
from braid.plan.logical.planner import plan

FOLDER = Path(__file__).parents[1] / "fixtures" / "lang" / "errors"
STREAMS = """\
CREATE APPLICATION app;
CREATE INPUT TABLE clicks (time, user, url, cost) FROM SCRIBE("clicks") TIME time;
CREATE INPUT TABLE visits (time, user, page, length) FROM SCRIBE("visits") TIME time;
"""


@dataclass(frozen=True)
class Case:
    """One bad program."""

    name: str
    program: str
    expected: str

    @property
    def text(self) -> str:
        return self.program.replace("@streams\n", STREAMS)

    def rendered(self) -> str:
        """What the compiler says about it."""
        try:
            query = compile_text(self.text, "app.sql")
            plan(query)
        except PqlError as error:
            return str(error)
        return "\n\n".join(query.warnings)


def load(path: Path) -> list[Case]:
    cases = []
    for chunk in re.split(r"^=== ", path.read_text(), flags=re.MULTILINE)[1:]:
        name, _, rest = chunk.partition("\n")
        program, _, expected = rest.partition("--- expected\n")
        cases.append(Case(name.strip(), program, expected.rstrip("\n")))
    return cases


def dump(path: Path, cases: list[Case]) -> None:
    blocks = [f"=== {case.name}\n{case.program}--- expected\n{case.rendered()}\n\n" for case in cases]
    path.write_text("".join(blocks))


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.txt")):
        dump(path, load(path))
