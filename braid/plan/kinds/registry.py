"""All kinds of stages, by name: a new kind is a file beside these and a line here."""

from __future__ import annotations

from braid.plan.kinds.join import JoinStage
from braid.plan.kinds.slicer import SlicerStage
from braid.plan.stages.base import Stage

KINDS: dict[str, type[Stage]] = {kind.kind: kind for kind in (SlicerStage, JoinStage)}
