"""Trials of programs before they land, each in a process of its own; and the quotas that they are to keep."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from braid.client.models import TrialInfo, TrialState
from braid.core.config import option_texts, parse_options
from braid.core.logging import Log
from braid.home.paths import Home
from braid.plan.serialise import plan_to_json
from braid.service.decide.quotas import Quotas, quotas_kept
from braid.service.planning import Planned
from braid.service.settings import Settings
from braid.service.trial_process import EXCEEDED, TrialJob

KNOWN_SECONDS = 30.0
"""How long a trial is believed: what is shown and deployed at once need not be tried twice."""
_KNOWN = 32
_AT_ONCE = 2
"""Trials at a time; others wait for them."""
_MEMORY = Path("/dev/shm")
_ROOM = 2 << 30
_LOG_BYTES = 2_000


class Trials:
    """Tries programs.

    Parameters
    ----------
    home, settings
        Where inputs are, and what trials and applications may take.
    log
        Of the service.
    clock
        In seconds.
    """

    def __init__(
        self, home: Home, settings: Settings, log: Log, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._home, self._settings, self._log, self._clock = home, settings, log, clock
        self._known: OrderedDict[str, tuple[float, TrialInfo]] = OrderedDict()
        self._lock = threading.Lock()
        self._free = threading.BoundedSemaphore(_AT_ONCE)

    def tried(self, planned: Planned) -> Planned:
        """A plan with what it is expected to do, and how it keeps the quotas. Takes seconds."""
        settings, trial = self._settings, self._trial(planned)
        quotas = Quotas(
            rows_held=settings.quota_rows_held,
            memory=settings.quota_memory,
            cores=settings.quota_cores,
            log_per_day=settings.quota_log_per_day,
        )
        local = settings.master is None or settings.master.startswith("local")
        kept = quotas_kept(quotas, trial, planned.asked.resources, os.cpu_count() if local else None)
        return replace(planned, info=planned.info.model_copy(update={"trial": trial, "quotas": kept}))

    def _trial(self, planned: Planned) -> TrialInfo:
        settings = self._settings
        if settings.trial_seconds == 0:
            return TrialInfo(state=TrialState.UNKNOWN, why="the service makes no trials")
        options = parse_options({**dict(planned.plan.options), **planned.asked.options})
        job = TrialJob(
            plan=dict(plan_to_json(planned.plan)),
            options=option_texts(options),
            home=str(self._home.root.absolute()),
            folder="",
            seconds=settings.trial_seconds,
            memory=settings.trial_memory,
            pooled=planned.asked.resources.pool is not None,
        )
        key = hashlib.sha256(job.model_dump_json().encode()).hexdigest()
        with self._lock:
            at, known = self._known.get(key, (0.0, None))
        if known is not None and self._clock() - at < KNOWN_SECONDS:
            return known
        if not self._free.acquire(timeout=settings.trial_seconds):
            return TrialInfo(state=TrialState.UNKNOWN, why="other programs are being tried: ask again")
        try:
            found = self._run(job)
        finally:
            self._free.release()
        if found.state is TrialState.UNKNOWN:
            return found  # what was missing, rows perhaps, may be there by the next time
        with self._lock:
            self._known[key] = self._clock(), found
            self._known.move_to_end(key)
            while len(self._known) > _KNOWN:
                self._known.popitem(last=False)
        return found

    def _run(self, job: TrialJob) -> TrialInfo:
        """Try in a process of its own, which is killed after its time."""
        with tempfile.TemporaryDirectory(
            prefix="braid-trial-", dir=_place(), ignore_cleanup_errors=True
        ) as folder:
            job = job.model_copy(update={"folder": folder})
            # What it may not know, it cannot tell.
            environment = {name: text for name, text in os.environ.items() if not name.startswith("BRAID_")}
            process = subprocess.Popen(
                [sys.executable, "-m", "braid.service.trial_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**environment, "OMP_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"},
                start_new_session=True,
            )
            try:
                output, errors = process.communicate(job.model_dump_json(), timeout=job.seconds)
            except subprocess.TimeoutExpired:
                return TrialInfo(state=TrialState.EXCEEDED, why=f"it takes longer than {job.seconds:g} s")
            finally:
                if process.poll() is None:
                    process.kill()
                    process.communicate()
        return self._answer(process.returncode, output, errors)

    def _answer(self, code: int, output: str, errors: str) -> TrialInfo:
        if code < 0 or code == EXCEEDED:
            return TrialInfo(state=TrialState.EXCEEDED, why="it takes more time or memory than it may")
        try:
            if code == 0:
                return TrialInfo.model_validate_json(output)
        except ValidationError:
            pass
        self._log.warning("trial failed", code=code, errors=errors[-_LOG_BYTES:])
        return TrialInfo(
            state=TrialState.UNKNOWN, why="it has failed by a fault of its own, which the service's log tells"
        )


def _place() -> Path | None:
    """Memory, if there is room: a trial syncs many small files."""
    try:
        return _MEMORY if shutil.disk_usage(_MEMORY).free > _ROOM else None
    except OSError:
        return None
