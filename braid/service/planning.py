"""The plan of a deploy: what a program would do to what runs, and what is checked before it lands."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from braid import api
from braid.client.models import ChangeInfo, Deploy, PlanInfo, Program, TrialState
from braid.core.config import AppConfig, parse_options
from braid.engine.ownership import check_inputs, check_outputs
from braid.home.paths import AppHome, Home
from braid.home.service import Resources
from braid.plan.serialise import plan_to_json
from braid.plan.stages.base import Plan
from braid.service.errors import ConflictError, ServiceError
from braid.service.folders import check_folders

_REMOVALS = ("join.removed", "table.removed")
"""Kinds of changes that must be made on purpose."""


@dataclass(frozen=True)
class Base:
    """The version that has landed last, which may not run yet."""

    number: int
    plan: Plan
    resources: Resources


Landed = Callable[[str], Base | None]
"""Tells what has landed of an application, by its name."""


@dataclass(frozen=True)
class Planned:
    """A program that could land.

    Parameters
    ----------
    plan
        What would run.
    asked
        The program, its options, and what it asks for.
    info
        What that would do.
    base
        The number of the version that it was compared with.
    """

    plan: Plan
    asked: Program
    info: PlanInfo
    base: int | None

    def check(self, asked: Deploy) -> None:
        """Raise unless it may land, and somebody has agreed to all that it does."""
        info = self.info
        if info.verdict == api.Verdict.REFUSED.value:
            refused = [one for one in info.changes if one.verdict == info.verdict]
            alternatives = dict.fromkeys(text for one in refused for text in one.alternatives)
            raise ServiceError(
                f"the update of {info.application!r} is refused: "
                + "; ".join(f"{one.subject}, {one.detail}" for one in refused),
                hint="; or ".join(alternatives) or "deploy it as an application of another name",
            )
        _check_trial(info)
        if asked.hash is not None and asked.hash != info.hash:
            raise ConflictError(
                f"the plan for {info.application!r} has changed since it was made",
                hint="the program, its options, or what runs is not what it was: plan it again",
            )
        if info.removes and not asked.remove:
            raise ConflictError(
                f"the program leaves out what runs: {', '.join(info.removes)}",
                hint="if that is on purpose, agree to it (--remove)",
            )
        if info.verdict == api.Verdict.REPLAYED.value and not asked.replay:
            raise ConflictError(
                f"the update of {info.application!r} replays inputs",
                hint="agree to it (--yes), or stop the inputs and drain it first",
            )
        if info.in_flight and not asked.discard:
            rows = ", ".join(f"{name} {count:,}" for name, count in info.in_flight.items())
            raise ConflictError(
                f"rows in flight would be decided before their time: {rows}",
                hint="agree to it (--discard), or stop the inputs and drain it first",
            )


def _check_trial(info: PlanInfo) -> None:
    """Raise if the program fails on rows of its inputs, or takes more than it may."""
    trial = info.trial
    if trial is not None and trial.state is TrialState.FAILED:
        raise ServiceError(
            f"the trial of {info.application!r} has failed: {trial.why}",
            where=trial.where,
            hint="leave such rows out (WHERE), or compute something else of them (CASE)",
        )
    over = [quota for quota in info.quotas if not quota.kept]
    if over:
        raise ServiceError(
            f"application {info.application!r} is over a quota: " + "; ".join(quota.text for quota in over),
            where=", ".join(f"quota_{quota.name}" for quota in over),
            hint="let it take less: shorter windows, a filter before the join, --memory, --cores; "
            "or ask who runs the service for more",
        )


def plan_program(
    home: Home, asked: Program, landed: Landed, *, create: bool = False, folders: Sequence[str] = ()
) -> Planned:
    """Compile a program and compare it with what runs; raises what is wrong with it."""
    compiled = api.compile_text(asked.program)
    found = planned(home, compiled.plan, asked, landed, create=create, folders=folders)
    return replace(found, info=found.info.model_copy(update={"warnings": list(compiled.warnings)}))


def planned(
    home: Home,
    plan: Plan,
    asked: Program,
    landed: Landed,
    *,
    create: bool = False,
    folders: Sequence[str] = (),
) -> Planned:
    """Compare a plan with what runs, and with what has landed and may run by then.

    Parameters
    ----------
    home, plan, asked, landed
        Where it is to run, what, as what was asked for, and what has landed.
    create
        Whether inputs that are not there are made.
    folders
        What it may read and write besides folders of the home.
    """
    application = home.application(plan.application)
    settings = parse_options({**dict(plan.options), **asked.options})
    check_folders(home, plan, settings, folders)
    check_outputs(application, plan, settings)
    if not create:
        check_inputs(application, plan)
    base = landed(plan.application)
    update = api.update_of(plan, home, asked.options)
    diffs = [] if update is None else [update.found]
    if base is not None and (update is None or base.plan != update.before):
        diffs.append(api.diff(base.plan, plan.with_options(settings)))
    changes = {(one.subject, one.kind, one.detail): one for found in diffs for one in found.changes}
    info = PlanInfo(
        application=plan.application,
        new=base is None,
        verdict=max((found.verdict for found in diffs), key=list(api.Verdict).index, default=None),
        changes=[
            ChangeInfo(
                subject=one.subject,
                kind=one.kind,
                detail=one.detail,
                verdict=one.verdict.value,
                reason=one.rule.reason,
                alternatives=list(one.rule.alternatives),
            )
            for one in changes.values()
        ]
        + _moves(asked.resources, base),
        in_flight={} if update is None else {name: rows for name, rows in update.in_flight().items() if rows},
        removes=[one.subject for one in changes.values() if one.kind in _REMOVALS],
        stages=[stage.name for stage in plan.stages],
        resources=asked.resources,
        hash=_hash(application, asked, settings, base),
    )
    return Planned(plan, asked, info, None if base is None else base.number)


def _moves(asked: Resources, base: Base | None) -> list[ChangeInfo]:
    """What changes of what an application asks for."""
    before, after = ({} if base is None else base.resources.asked), asked.asked
    return [
        ChangeInfo(
            subject=name,
            kind="resources",
            detail=f"{before.get(name, 'as usual')} -> {after.get(name, 'as usual')}",
            verdict=api.Verdict.KEPT.value,
            reason="the application is started with it, and goes on",
        )
        for name in Resources.model_fields
        if base is not None and before.get(name) != after.get(name)
    ]


def _hash(application: AppHome, asked: Program, options: AppConfig, base: Base | None) -> str:
    """What an approval is for: the program, its options and resources, and what it takes the place of."""
    try:
        runs = application.plan_file.read_bytes()
    except FileNotFoundError:
        runs = b""
    before = [hashlib.sha256(runs).hexdigest(), None if base is None else base.number]
    parts = json.dumps([asked.program, options.model_dump(mode="json"), asked.resources.asked, *before])
    return hashlib.sha256(parts.encode()).hexdigest()


def stored_plan(planned: Planned) -> dict[str, object]:
    """The plan as a version keeps it."""
    return dict(plan_to_json(planned.plan))
