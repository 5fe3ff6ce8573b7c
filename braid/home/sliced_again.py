"""What is known of an input that is being sliced again, so that a process that is killed can go on."""

from __future__ import annotations

from pydantic import Field

from braid.core.positions import Position
from braid.home.records import Record


class SlicedAgain(Record):
    """How far a slicer has come with slicing again what it has read.

    Parameters
    ----------
    update
        The update that it is done for: another one does it anew.
    attempt
        A name of its own, which the folder of its parts has.
    done
        The last micro-batch of the slicer's checkpoint when it began; -1 if there was none.
    half_changed
        Whether an attempt before this one was given up while the category was changed.
    first
        The first new commit; None until all rows are written. From then on the category is being changed.
    parts
        Numbers of the parts that become commits, from `first` on.
    position
        The last chunk of the new commits; None until all is over.
    rows, gone
        Rows written, and what could not be read any more, once all is over.
    """

    update: str
    attempt: str
    done: int
    half_changed: bool = False
    first: int | None = None
    parts: tuple[int, ...] = ()
    position: Position | None = None
    rows: int = 0
    gone: int = 0

    @property
    def is_changing(self) -> bool:
        """Whether the category is neither as it was nor as it is to be: nothing may use it before the end."""
        return self.position is None and (self.first is not None or self.half_changed)


class SlicedPart(Record):
    """A part of what was read, sliced again, in data files that no commit names yet.

    Parameters
    ----------
    start, end
        What the part is: from `start` up to, but not including `end`, as its source counts.
    rows
        Rows written.
    gone
        Files or commits of the part that could not be read any more.
    files
        The entries of the data files, as JSON.
    watermarks
        Of the commit.
    """

    start: Position
    end: Position
    rows: int
    gone: int
    files: tuple[str, ...]
    watermarks: dict[str, int] = Field(default_factory=dict)
