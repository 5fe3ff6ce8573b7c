"""docs/options.md says what the code does."""

from __future__ import annotations

import re

from braid.core.config import AppConfig, parse_options
from tools import options


def test_the_page_is_up_to_date() -> None:
    assert options.PAGE.read_text() == options.page(), "run python tools/options.py --write"


def test_defaults_as_printed_are_the_defaults() -> None:
    found = dict(re.findall(r"^\| `(\w+)` \| [^|]* \| ([^|]*) \|", options.page(), re.MULTILINE))
    assert list(found) == list(AppConfig.model_fields)
    printed = {name: text.strip("`'") for name, text in found.items() if text != "none"}
    assert parse_options(printed) == AppConfig()
