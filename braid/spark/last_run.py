"""What an application ran last, as its home has it."""

from __future__ import annotations

import json
from dataclasses import replace

from braid.core.config import option_text
from braid.core.errors import RunError
from braid.home.options import read_options
from braid.home.paths import AppHome, Home, HomeLike
from braid.home.versions import versions
from braid.plan.serialise import loads
from braid.plan.stages.base import Plan, Stage


def overrides(home: AppHome) -> dict[str, str]:
    """The options that were set at the last start, whatever its program said, as one would write them."""
    ran = read_options(home)
    return {} if ran is None else {n: option_text(n, getattr(ran.options, n)) for n in ran.overridden or ()}


def ran_plan(home: AppHome) -> Plan:
    """The plan of the last run, with the options that it was run with, not only those of its program."""
    plan = loads(home.plan_file.read_bytes())
    ran = read_options(home)
    return plan if ran is None or ran.overridden is None else plan.with_options(ran.options)


def running_plan(application: str, home: HomeLike = None) -> Plan:
    """The plan that an application runs, or ran last, in a home, with the options that it was run with."""
    found = Home.existing(home)
    names = [one.name for one in found.applications() if one.plan_file.exists()]
    if application not in names:
        raise RunError(
            f"application {application!r} has not run here",
            where=str(found.root),
            hint=f"applications that have: {', '.join(names) or 'none'}",
        )
    return ran_plan(found.application(application))


def with_returning(home: AppHome, before: Plan, after: Plan) -> Plan:
    """The plan of the last run, with stages of earlier ones that `after` has again.

    A stage that a program leaves out keeps its checkpoint. If a later program has it again, it goes on from
    there, and so it must be compared with what it was.
    """
    there, tables = {stage.name for stage in before.stages}, {stage.table for stage in before.stages}
    back = {stage.name for stage in after.stages if stage.name not in there}
    back = {name for name in back if home.checkpoint(name).exists()}
    found: dict[str, Stage] = {}
    for version in reversed(versions(home)) if back else ():
        for stage in loads(json.dumps(version.plan)).stages:
            if stage.name in back and (stage.table is None or stage.table not in tables):
                found.setdefault(stage.name, stage)
    returning = tuple(found[stage.name] for stage in after.stages if stage.name in found)
    return replace(before, stages=(*before.stages, *returning)) if returning else before
