"""The programmatic surface of Braid: what the command line and the HTTP service are thin layers over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from braid import data
from braid.data import Record
from braid.errors import BraidError
from braid.home import Home, read_json
from braid.kernels.predicate import Json
from braid.lang import compiler
from braid.lang.query import Query
from braid.plan.diff import Change, Diff, replay_text
from braid.plan.diff import diff as diff_plans
from braid.plan.explain import explain_mermaid, explain_text
from braid.plan.lower import lower
from braid.plan.planner import rewrite
from braid.plan.pql import print_rewritten
from braid.plan.serialise import dumps, loads
from braid.plan.stages import Plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession  # noqa: TID251  only a name for the type checker

    from braid.spark.app import Application

__all__ = ["FORMATS", "Change", "Compiled", "Diff", "compile_file", "compile_text", "diff", "diff_json"]


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
        """Rendered warnings, such as an unused input."""
        return self.query.warnings


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
    lines.append(f"verdict: {found.verdict.value}" if found.changes else "no changes")
    return "\n".join(lines) + "\n"


def run(
    program: str | Path | Plan,
    home: str | Path | None = None,
    *,
    spark: SparkSession | None = None,
    options: Mapping[str, object] | None = None,
    drain: bool = False,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    on_progress: Callable[[dict[str, object]], None] | None = None,
) -> Application:
    """Start an application, or go on with one, and return its handle.

    Parameters
    ----------
    program
        A file with a PQL program or a plan as JSON, or a plan.
    home
        Folder of the log and of applications; `$BRAID_HOME`, or `braid-home` in the working directory.
    spark
        An existing session, as in a notebook; otherwise Spark is started, and stopped in the end.
    options
        Options that override those of the program.
    drain
        Whether to work off everything available, close all windows and end.
    master, settings
        For a new Spark application: where it runs, and further settings.
    on_progress
        Called with the metrics of every micro-batch.
    """
    from braid.spark.app import Application

    plan = program if isinstance(program, Plan) else load_plan(program)
    application = Application(
        plan,
        Home.at(home),
        spark=spark,
        options=options,
        drain=drain,
        master=master,
        settings=settings,
        on_progress=on_progress,
    )
    return application.start()


def publish(category: str, records: Iterable[Record], home: str | Path | None = None) -> int:
    """Append JSON records (texts or mappings) to a category; `braid.data.Publisher` does it one by one."""
    return data.publish(Home.at(home), category, records)


def read(category: str, home: str | Path | None = None, limit: int | None = None) -> pa.Table:
    """The rows of a category, oldest first."""
    return data.read(Home.at(home), category, limit)


def status(home: str | Path | None = None) -> list[dict[str, object]]:
    """What the applications of a home are doing, or did last, with their last metrics."""
    found = []
    for application in Home.at(home).applications():
        value = read_json(application.status_file)
        if isinstance(value, dict):
            if not application.is_running() and value["state"] in ("starting", "running", "draining"):
                value["state"] = "killed"
            found.append(value)
    return found


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise BraidError(f"cannot read the file: {error.strerror}", where=str(path)) from None
    except UnicodeDecodeError as error:
        raise BraidError(
            f"the file is not UTF-8: {error.reason} at byte {error.start}", where=str(path)
        ) from None
