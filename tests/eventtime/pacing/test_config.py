"""Pacing by the options of an application."""

import pytest

from braid.core.config import parse_options
from braid.core.errors import ConfigError
from braid.core.side import Side
from braid.core.times import MINUTE
from braid.eventtime.ascending import Ascending
from braid.eventtime.calibrated import Calibrated
from braid.eventtime.pacing.config import PacingConfig
from braid.eventtime.propagated import Propagated
from tests.eventtime.pacing.two_inputs import BOUND, config


def test_options_of_an_application() -> None:
    options = parse_options({"stream_time": "ascending", "percentile": 5, "slack": "2 minutes"})
    found = PacingConfig.of(options, Side, BOUND, propagated=["right"])
    assert (found.estimators["left"], found.estimators["right"], found.slack) == (
        Ascending(5),
        Propagated(),
        2 * MINUTE,
    )
    assert PacingConfig.of(parse_options({}), Side, BOUND).estimators["left"] == Calibrated(1.0)
    assert not PacingConfig.of(parse_options({}), Side, BOUND).waits
    assert PacingConfig.of(parse_options({"idle": "wait"}), Side, BOUND).waits
    for wrong in ({"slack": -1}, {"batch_rows": 0}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            config(**wrong)
