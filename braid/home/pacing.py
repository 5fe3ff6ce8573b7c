"""What the inputs of a stage are doing: told by its source when that changes."""

from __future__ import annotations

from pydantic import model_validator

from braid.home.records import Record


class Pacing(Record):
    """What each input is doing, and which of them is paused.

    Parameters
    ----------
    inputs
        The status of every input by its name, such as `reading`, `paused` or `idle`.
    paused
        The input that is paused, if one is.
    why
        Why, or why else the stage reads less than there is.
    """

    inputs: dict[str, str]
    paused: str | None = None
    why: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_first_version(cls, value: object) -> object:
        """Files of the first version have the two sides of a join beside the rest."""
        if isinstance(value, dict) and "inputs" not in value:
            return {**value, "inputs": {side: value[side] for side in ("left", "right") if side in value}}
        return value
