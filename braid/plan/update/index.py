"""A plan by names that do not depend on the application's, so that two plans can be compared."""

from __future__ import annotations

from collections.abc import Iterator

from braid.core.config import AppConfig, parse_options
from braid.plan.names import category
from braid.plan.stages.base import Plan, Source, Stage
from braid.plan.update.change import Change


class PlanIndex:
    """A plan, with its options, its stateful stages and its tables by name."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.config: AppConfig = parse_options(dict(plan.options))
        self.operators: dict[str, Stage] = {s.name: s for s in plan.stages if s.stateful}
        self.tables: dict[str, Stage] = {s.table: s for s in plan.stages if s.table is not None}
        self._prefix = category(plan.application, "")

    def local(self, name: str) -> str:
        """A category's name without the application's."""
        return name.removeprefix(self._prefix)

    def operator_changes(self, old: Stage, new: Stage) -> Iterator[Change]:
        """Whether a stage is another: all that is known of kinds that do not say more."""
        if old != new:
            detail = f"{old.shape()} -> {new.shape()}"
            yield Change(f"{new.change_kind}.changed", f"{new.kind} {new.name}", detail)

    def source(self, source: Source) -> tuple[str, str, str]:
        """What a stage reads, as far as another plan could read the same."""
        name = self.local(source.name) if source.internal else source.name
        return source.kind, name, source.format
