"""What a trial says of a program, in words."""

from __future__ import annotations

from collections.abc import Iterator

from braid.client.models import PlanInfo, TrialInfo, TrialState
from braid.core.sizes import size_words

_NOT_DONE = {
    TrialState.UNKNOWN: "no trial",
    TrialState.FAILED: "the trial has failed",
    TrialState.EXCEEDED: "the trial was given up",
}


def trial_words(plan: PlanInfo) -> Iterator[str]:
    """What the program of a plan is expected to do, line by line, and what it may."""
    trial = plan.trial
    if trial is not None and trial.state is TrialState.DONE:
        yield from _expected(trial)
    elif trial is not None:
        where = f" ({trial.where})" if trial.where else ""
        yield f"{_NOT_DONE[trial.state]}: {trial.why}{where}"
    for quota in plan.quotas:
        if not quota.kept:
            yield f"over quota_{quota.name}: {quota.text}"
        elif quota.figure is None:
            yield f"quota_{quota.name}: {quota.text}"


def _expected(trial: TrialInfo) -> Iterator[str]:
    rows = sum(one.rows for one in trial.inputs.values())
    yield f"expected, by a trial on the newest {rows:,} rows:"
    for name, one in trial.inputs.items():
        dead = f", {one.dead:,} of {one.rows:,} dead letters" if one.dead else ""
        yield f"  {name}: {_rate(one.rate)}, by {one.basis}{dead}"
    yield f"  {_rate(trial.rows_in)} in, {_rate(trial.rows_out)} out, {trial.rows_held or 0:,.0f} rows held"
    for name, stage in trial.stages.items():
        shares = ", ".join(f"{share:.1%} of {side} rows" for side, share in stage.match_rate.items())
        if shares:
            yield f"  {name}: {shares} with a match"
    yield (
        f"  {size_words(trial.memory or 0)} of memory, {size_words(trial.checkpoint or 0)} of checkpoints, "
        f"{size_words(trial.log_per_day or 0)} a day in the log"
    )
    yield from (f"  {note}" for note in trial.notes)


def _rate(rows: float | None) -> str:
    rows = rows or 0.0
    return f"{rows:,.0f} rows/s" if rows >= 10 else f"{rows:,.2g} rows/s"
