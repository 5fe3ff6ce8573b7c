"""What the inputs of a stage are doing: told by its source when that changes."""

from __future__ import annotations

from pathlib import Path

from pydantic import model_validator

from braid.core.errors import RunError
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
        Why, or why else the stage reads less than there is; and which input is silent.
    silent
        The input that is silent while the other one goes on, if one is.
    silent_since
        When it last had rows, in seconds.
    """

    inputs: dict[str, str]
    paused: str | None = None
    why: str | None = None
    silent: str | None = None
    silent_since: float | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_first_version(cls, value: object) -> object:
        """Files of the first version have the two sides of a join beside the rest."""
        if isinstance(value, dict) and "inputs" not in value:
            return {**value, "inputs": {side: value[side] for side in ("left", "right") if side in value}}
        return value


def read_pacing(path: Path) -> Pacing | None:
    """What a source has told last; None if it has told nothing yet.

    It is for the user to read, and written again when something changes: a damaged file holds up nobody.
    """
    try:
        return Pacing.read(path)
    except RunError:
        return Pacing(inputs={}, why=f"unknown until it changes, {path} is damaged")
