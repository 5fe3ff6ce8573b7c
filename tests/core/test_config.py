"""Options: durations with units, and errors that name what is valid."""

from __future__ import annotations

import pytest

from braid.core.config import (
    AppConfig,
    option_text,
    option_texts,
    parse_duration,
    parse_options,
    stored_options,
)
from braid.core.errors import ConfigError
from braid.core.times import DAY, FOREVER


def test_what_is_kept_may_be_kept_for_ever() -> None:
    kept = parse_options(
        {"retention": "Forever", "output_retention": "forever", "dead_letter_retention": "1 d"}
    )
    assert (kept.retention, kept.output_retention, kept.dead_letter_retention) == (FOREVER, FOREVER, DAY)
    assert stored_options(kept.model_dump(mode="json")) == kept
    with pytest.raises(ConfigError, match="'forever' is not a duration"):
        parse_options({"slack": "forever"})


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("30s", 30_000_000),
        ("100 ms", 100_000),
        ("1.5 hours", 5_400_000_000),
        (2, 2_000_000),
        ("2", 2_000_000),
    ],
)
def test_durations(text: object, micros: int) -> None:
    assert parse_duration(text) == micros


def test_defaults_are_valid_and_options_override_them() -> None:
    assert parse_options({}) == AppConfig()
    assert parse_options({"shards": "4", "slack": "2 minutes"}).slack == 120_000_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shard": 4}, "unknown option 'shard'\n  hint: did you mean 'shards'?"),
        ({"shards": 0}, "option 'shards' is 0: Input should be greater than or equal to 1"),
        ({"slack": "soon"}, "option 'slack' is 'soon': Value error, 'soon' is not a duration"),
        (
            {"stream_time": "magic"},
            "option 'stream_time' is 'magic': Input should be 'calibrated' or 'ascending'",
        ),
    ],
)
def test_bad_options_say_what_is_valid(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_options(options)
    assert str(error.value).startswith(message)


def test_options_are_written_as_they_are_read() -> None:
    options = parse_options(
        {
            "retention": "90 minutes",
            "slack": 0,
            "max_future": "1.5 seconds",
            "shards": 3,
            "late_lookup": False,
        }
    )
    texts = option_texts(options)
    assert texts == {
        "retention": "90 minutes",
        "slack": "0 seconds",
        "max_future": "1500 milliseconds",
        "shards": "3",
        "late_lookup": "false",
    }
    assert parse_options(texts) == options
    for name, field in AppConfig.model_fields.items():
        text = option_text(name, field.default)
        assert text == "none" or getattr(parse_options({name: text}), name) == field.default
