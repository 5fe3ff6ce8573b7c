"""The process of a trial: reads from its input what to try, and writes to its output what has come of it.

Run by `braid.service.trials`, which kills it after its time: nothing that is computed here harms the service.
"""

from __future__ import annotations

import math
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

from pydantic import Field

from braid.home.records import Record

EXCEEDED = 3
"""Exit code if memory has run out."""
_FILE_BYTES = 512 << 20
_NICE = 5


class TrialJob(Record):
    """What to try.

    Parameters
    ----------
    plan, options
        The plan, and all options that it runs with.
    home, folder
        Where inputs are, and where to write meanwhile.
    seconds, memory
        What the process may take.
    pooled
        Whether the application will share a driver.
    """

    plan: dict[str, Any]
    options: dict[str, str] = Field(default_factory=dict)
    home: str
    folder: str
    seconds: float
    memory: int
    pooled: bool = False


def main() -> int:
    """Try what the standard input says."""
    job = TrialJob.model_validate_json(sys.stdin.read())
    _limit(job)
    try:
        sys.stdout.write(_tried(job))
    except MemoryError:
        return EXCEEDED
    return 0


def _limit(job: TrialJob) -> None:
    """Let the system see to limits, should whoever has started this process be gone."""
    seconds = math.ceil(job.seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_DATA, (job.memory, job.memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE_BYTES, _FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(seconds + 1)
    os.nice(_NICE)


def _tried(job: TrialJob) -> str:
    from braid.client.models import InputTrial, StageTrial, TrialInfo, TrialState
    from braid.core.config import parse_options
    from braid.core.errors import BraidError
    from braid.home.paths import Home
    from braid.plan.serialise import plan_from_json
    from braid.testing.trial import TrialFailedError, try_plan

    try:
        found = try_plan(
            plan_from_json(job.plan), Home.at(job.home), parse_options(job.options), Path(job.folder)
        )
    except TrialFailedError as error:
        return TrialInfo(state=TrialState.FAILED, why=error.what, where=error.where).model_dump_json()
    except BraidError as error:
        return TrialInfo(state=TrialState.UNKNOWN, why=error.what, where=error.where).model_dump_json()
    expected = found.prediction
    return TrialInfo(
        state=TrialState.DONE,
        rows_in=expected.rows_in,
        rows_out=expected.rows_out,
        rows_held=expected.rows_held,
        memory=expected.memory(pooled=job.pooled),
        checkpoint=expected.checkpoint,
        log_per_day=expected.log_per_day,
        inputs={
            name: InputTrial(rows=one.rows, dead=one.dead, rate=one.rate, basis=one.basis)
            for name, one in found.inputs.items()
        },
        stages={
            name: StageTrial(
                rows_in=stage.rows_in,
                rows_out=stage.rows_out,
                held=dict(stage.held),
                match_rate=dict(stage.match_rate),
            )
            for name, stage in expected.stages.items()
        },
        notes=list(expected.notes),
    ).model_dump_json()


if __name__ == "__main__":
    sys.exit(main())
