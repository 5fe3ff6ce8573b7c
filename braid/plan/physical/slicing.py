"""How a slicer runs: as rows in Catalyst, or on whole files in Arrow; and which columns leave the JVM."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from braid.core.columns import KEY
from braid.kernels.join.spec import JoinType
from braid.plan.physical.operation import Operation

if TYPE_CHECKING:
    from braid.plan.kinds.slicer import SlicerStage
    from braid.plan.stages.base import Source


@dataclass(frozen=True)
class Listed:
    """The faults of records that a slicer lists; another one that reads the same input lists the rest.

    Parameters
    ----------
    missing
        Columns without which a record is a dead letter here, and nowhere before.
    times
        Whether it lists event times that are not valid.
    """

    missing: tuple[str, ...]
    times: bool


@dataclass(frozen=True)
class Slicing(Operation):
    """How a slicer runs.

    Parameters
    ----------
    whole_files
        Whether tasks get names of files, and read them in Arrow, so that rows never become rows of the JVM.
        None if that depends on the types in the files, which are not known yet.
    copies
        Columns that are the same as another one: they are added where the rows are stored.
    required
        Columns that a record cannot do without: those that its key is computed from.
    lists
        What it lists of bad records; None for all.
    """

    whole_files: bool | None
    copies: tuple[tuple[str, str], ...]
    required: tuple[str, ...]
    lists: Listed | None = None

    @property
    def texts(self) -> list[str]:
        """In words."""
        how = "whole files in Arrow if their types allow, else rows in Catalyst"
        if self.whole_files is not None:
            how = "whole files in Arrow" if self.whole_files else "rows in Catalyst"
        found = [f"slice {how}"]
        if self.whole_files is not False:
            found.append("small files of a folder are sliced by the driver where Spark runs on one machine")
        if self.copies:
            found.append("copy in the sink: " + ", ".join(f"{name} = {of}" for name, of in self.copies))
        if self.required:
            found.append(f"without these, records are dead letters: {', '.join(self.required)}")
        if self.lists is not None:
            found.append("bad records are listed by another stage that reads the same input")
        return found


def slicing(stage: SlicerStage, expressible: bool | None = None) -> Slicing:
    """How a slicer runs; `expressible` says whether Arrow can compute its columns from the stored ones."""
    whole_files = expressible if may_read_whole_files(stage) else False
    return Slicing(whole_files, () if whole_files else _copies(stage), _required(stage))


def may_read_whole_files(stage: SlicerStage) -> bool:
    """Whether nothing in a slicer needs Catalyst, as far as the plan says; the rest depends on types."""
    extra = stage.join_input
    if extra is None or extra.live is not None or stage.filter is not None or not extra.keys or stage.lookups:
        return False
    if not stage.source.kind.connector.formats or stage.source.format != "parquet":
        return False
    return {column.name: column.type for column in stage.source.columns}.get(extra.time.sql) == "timestamp"


def listed(stage: SlicerStage, before: Iterable[SlicerStage]) -> Listed | None:
    """What a slicer lists of bad records, given those before it in the plan: every fault is listed once."""
    same = [other for other in before if _same_records(other.source, stage.source)]
    if not same or stage.source.internal:
        return None
    required = {name for other in same for name in _required(other)}
    by = None if stage.join_input is None else stage.join_input.time.sql
    # One with a filter does not see the times of all records.
    timed = any(o.join_input and o.join_input.time.sql == by and not may_leave_out(o) for o in same)
    return Listed(tuple(name for name in _required(stage) if name not in required), not timed)


def _same_records(one: Source, other: Source) -> bool:
    """Whether two slicers read the same records, and make the same of them."""
    return replace(one, disorder=None) == replace(other, disorder=None)


def may_leave_out(stage: SlicerStage) -> bool:
    """Whether rows that are read need not come to the sink."""
    return stage.filter is not None or any(one.type is JoinType.INNER for one in stage.lookups)


def _copies(stage: SlicerStage) -> tuple[tuple[str, str], ...]:
    """Columns of a slicer that are the same as one of its keys: they leave the JVM once."""
    keys = {(key.sql, key.type): f"{KEY}{number}" for number, key in enumerate(stage.keys)}
    return tuple((c.name, keys[c.sql, c.type]) for c in stage.columns if (c.sql, c.type) in keys)


def _required(stage: SlicerStage) -> tuple[str, ...]:
    words = {word.lower() for key in stage.keys for word in re.findall(r"\w+", key.sql)}
    return tuple(column.name for column in stage.source.columns if column.name.lower() in words)
