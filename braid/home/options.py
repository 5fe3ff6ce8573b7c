"""The options that an application was run with last: its program's, and what was set at its start."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from braid.core.config import AppConfig, stored_options
from braid.core.errors import ConfigError, RunError
from braid.home.files import read_json, write_json
from braid.home.paths import AppHome


class RunOptions(NamedTuple):
    """Options as run.

    Parameters
    ----------
    options
        All of them.
    overridden
        Names of those that were set at the start, whatever the program says; None if that was not kept.
    """

    options: AppConfig
    overridden: tuple[str, ...] | None = None


def write_options(home: AppHome, options: AppConfig, overridden: Iterable[str] = ()) -> None:
    """Keep the options of a run; durations are microseconds."""
    value = {"options": options.model_dump(mode="json"), "overridden": sorted(overridden)}
    write_json(home.options_file, value)


def read_options(home: AppHome) -> RunOptions | None:
    """The options of the last run; None if it was not by a version that keeps them."""
    value = read_json(home.options_file)
    if value is None:
        return None
    try:
        if not isinstance(value, dict) or "options" not in value:
            # Before, the file was the options themselves, as a drain had changed them.
            return RunOptions(stored_options(value))
        overridden = value.get("overridden", [])
        if not isinstance(overridden, list):
            raise ConfigError(f"overridden is {overridden!r}, not a list of names")
        return RunOptions(stored_options(value["options"]), tuple(map(str, overridden)))
    except ConfigError as error:
        raise RunError(str(error), where=str(home.options_file), hint="remove the damaged file") from None
