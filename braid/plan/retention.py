"""Whether what a plan's joins look for in the log is kept there for long enough."""

from __future__ import annotations

from braid.core.config import AppConfig
from braid.core.times import FOREVER
from braid.plan.physical.operation import Facts
from braid.plan.physical.stepping import Stepping
from braid.plan.stages.base import Plan
from braid.plan.time_words import duration


def retention_warnings(plan: Plan, options: AppConfig) -> list[str]:
    """A line for every join whose late rows will not find all of their window in the log.

    Rows that a join still waits for are kept whatever the retention is; only what late rows look for is not.
    """
    found = []
    for stage in plan.stages:
        operation = stage.operation(plan, options, Facts())
        if not isinstance(operation, Stepping) or operation.bounds is None or not operation.rescued:
            continue
        lower, upper = operation.bounds
        if max(upper, -lower) >= FOREVER:
            continue
        reach = upper - lower + options.slack
        if options.retention < reach:
            found.append(
                f"retention is {duration(options.retention)}, but the window of {stage.kind} {stage.name} "
                f"spans {duration(reach)} with slack: late rows will find fewer partners in the log; "
                f"set retention to {duration(reach)} or more"
            )
    return found
