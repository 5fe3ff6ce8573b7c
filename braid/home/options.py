"""The options that an application was run with last: its program's, and what was set at its start."""

from __future__ import annotations

from braid.core.config import AppConfig, stored_options
from braid.core.errors import ConfigError, RunError
from braid.home.files import read_json, write_json
from braid.home.paths import AppHome


def write_options(home: AppHome, options: AppConfig) -> None:
    """Keep the options of a run; durations are microseconds."""
    write_json(home.options_file, options.model_dump(mode="json"))


def read_options(home: AppHome) -> AppConfig | None:
    """The options of the last run; None if it was not by a version that keeps them."""
    value = read_json(home.options_file)
    if value is None:
        return None
    try:
        return stored_options(value)
    except ConfigError as error:
        raise RunError(str(error), where=str(home.options_file), hint="remove the damaged file") from None
