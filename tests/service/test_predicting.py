"""What a trial expects of an application is what Spark then does; for more examples, run `predicting`."""

from __future__ import annotations

import pytest

from tests.service.predicting import compare

pytestmark = pytest.mark.spark


def test_an_application_does_what_its_trial_has_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRAID_TRIAL_SECONDS", "25")
    found = compare("first", 100, before=60, seconds=20)
    assert found.real.rows_in > 150
    assert "joined_streams.left" in found.real.match_rates
    # How much memory there is to take depends on the machine.
    assert [wrong for wrong in found.wrong if not wrong.startswith("memory")] == []
    assert 0.5 < found.expected.memory / found.real.memory < 2
