"""The two inputs of a join."""

from __future__ import annotations

from enum import StrEnum


class Side(StrEnum):
    """One of the two inputs of a join."""

    LEFT = "left"
    RIGHT = "right"

    @property
    def other(self) -> Side:
        """The opposite input."""
        return Side.RIGHT if self is Side.LEFT else Side.LEFT
