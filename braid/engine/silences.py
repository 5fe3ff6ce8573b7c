"""Silent inputs that others wait for: each silence is told once."""

from __future__ import annotations

from collections.abc import Mapping

from braid.core.logging import Log
from braid.core.times import SECOND, iso_time
from braid.home.status import StageStatus


class Silences:
    """Warns of inputs that have fallen silent.

    Parameters
    ----------
    log
        Where to.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._told: dict[str, tuple[str, float]] = {}

    def tell(self, stages: Mapping[str, StageStatus]) -> None:
        """Warn of those that are new, given what the stages say of their inputs."""
        found = {
            name: (stage.pacing.silent, stage.pacing.silent_since)
            for name, stage in stages.items()
            if stage.pacing is not None and stage.pacing.silent is not None and stage.pacing.silent_since
        }
        for name, (silent, since) in found.items():
            if self._told.get(name) != (silent, since):
                last = iso_time(round(since * SECOND))
                self._log.warning(
                    "input is silent, and rows wait for it", stage=name, input=silent, since=last
                )
        self._told.update(found)
