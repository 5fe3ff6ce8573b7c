"""Programs: compile, explain and compare them. Nothing here runs anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from braid.core.config import parse_options
from braid.core.errors import BraidError
from braid.core.json_values import Json
from braid.lang import compiler
from braid.lang.query import Query
from braid.plan.logical.lower import lower
from braid.plan.logical.planner import rewrite
from braid.plan.retention import retention_warnings
from braid.plan.serialise import dumps, loads
from braid.plan.show.explain import explain_mermaid, explain_text
from braid.plan.show.physical import explain_physical
from braid.plan.show.pql import print_rewritten
from braid.plan.stages.base import Plan
from braid.plan.update.diff import Diff, replay_text
from braid.plan.update.diff import diff as diff_plans


@dataclass(frozen=True)
class Compiled:
    """A program that compiles.

    Parameters
    ----------
    query
        What it means, with every name and type resolved.
    rewritten
        The same application, with one group of statements per operator.
    plan
        The stages that run it.
    """

    query: Query
    rewritten: Query
    plan: Plan

    @property
    def warnings(self) -> tuple[str, ...]:
        """Rendered warnings, such as an unused input, or a retention that is too short."""
        return (*self.query.warnings, *self._about_retention())

    def _about_retention(self) -> list[str]:
        found = retention_warnings(self.plan, parse_options(dict(self.plan.options)))
        return [f"warning: {text}" for text in found]

    @property
    def joins(self) -> int:
        """How many joins run it."""
        return sum(stage.stateful for stage in self.plan.stages)


def compile_text(text: str, filename: str = "<pql>") -> Compiled:
    """Compile a program; raises `PqlError` with everything that is wrong with it."""
    query = compiler.compile_text(text, filename)
    rewritten = rewrite(query)
    return Compiled(query, rewritten, lower(rewritten))


def compile_file(path: str | Path) -> Compiled:
    """Compile a program from a UTF-8 file."""
    return compile_text(_read(path), str(path))


def load_plan(path: str | Path) -> Plan:
    """The plan of a program, or a plan that was saved as JSON (a file named `*.json`)."""
    if str(path).endswith(".json"):
        return loads(_read(path))
    return compile_file(path).plan


FORMATS: dict[str, Callable[[Compiled], str]] = {
    "text": lambda compiled: explain_text(compiled.plan),
    "json": lambda compiled: dumps(compiled.plan) + "\n",
    "mermaid": lambda compiled: explain_mermaid(compiled.plan),
    "pql": lambda compiled: print_rewritten(compiled.rewritten),
    "physical": lambda compiled: explain_physical(compiled.plan),
}
"""The forms in which `explain` shows a plan."""


def explain(compiled: Compiled, form: str = "text") -> str:
    """Show how a program runs, in one of `FORMATS`."""
    if form not in FORMATS:
        raise BraidError(f"unknown format {form!r}", hint=f"one of {', '.join(FORMATS)}")
    return FORMATS[form](compiled)


def diff(old: Plan, new: Plan) -> Diff:
    """What changes from one plan to the other, and what each change does to a running application."""
    return diff_plans(old, new)


def diff_json(found: Diff) -> dict[str, Json]:
    """A diff as plain JSON values."""
    return {
        "verdict": found.verdict.value,
        "changes": [
            {
                "kind": change.kind,
                "subject": change.subject,
                "detail": change.detail,
                "verdict": change.verdict.value,
                "reason": change.rule.reason,
                "replay_microseconds": change.replay,
                "alternatives": list(change.rule.alternatives),
            }
            for change in found.changes
        ],
        "queries": [
            {"name": query.name, "before": list(query.before), "after": list(query.after)}
            for query in found.queries
        ],
    }


def diff_text(found: Diff) -> str:
    """A diff for people: one change per line, with reasons, and alternatives to what is not kept."""
    lines = []
    for change in found.changes:
        extra = f" ({replay_text(change)})" if change.verdict.value == "replayed" else ""
        lines.append(
            f"{change.verdict.value:8}  {change.subject}: {change.kind.partition('.')[2]}, {change.detail}"
        )
        lines.append(f"          {change.rule.reason}{extra}")
        lines += [f"          alternative: {text}" for text in change.rule.alternatives]
    for query in found.queries:
        lines.append(f"query {query.name} will run otherwise:")
        lines += [f"  - {text}" for text in query.before] + [f"  + {text}" for text in query.after]
    lines.append(f"verdict: {found.verdict.value}" if found.changes else "no changes")
    return "\n".join(lines) + "\n"


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise BraidError(f"cannot read the file: {error.strerror}", where=str(path)) from None
    except UnicodeDecodeError as error:
        raise BraidError(
            f"the file is not UTF-8: {error.reason} at byte {error.start}", where=str(path)
        ) from None
