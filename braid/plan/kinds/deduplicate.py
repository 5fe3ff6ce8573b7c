"""Of rows with equal keys within a window of event time, the first one stays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from braid.kernels.deduplicate import Deduplicate
from braid.plan.kinds.operator import OperatorStage


@dataclass(frozen=True, kw_only=True)
class DeduplicateStage(OperatorStage):
    """Keeps a row unless one with the same keys was kept up to `within` before it."""

    kind: ClassVar[str] = "deduplicate"
    adjustable: ClassVar[bool] = True

    def operator(self) -> Deduplicate:
        """The kernel."""
        return Deduplicate(self.keys, self.length("within"), self.output)

    def keeps(self) -> int:
        """A row that was kept hides others for that long."""
        return self.length("within")
