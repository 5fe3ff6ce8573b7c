"""Shared set-up of the tests."""

from __future__ import annotations

import os

from hypothesis import Phase, settings

# Explaining a failure costs minutes and rarely says more than the shrunk example. The gate tries the same
# examples every time, so that it judges the change and not the dice; everybody else rolls them.
settings.register_profile(
    "braid",
    deadline=None,
    derandomize="CI" in os.environ,
    phases=[p for p in Phase if p is not Phase.explain],
)
settings.load_profile("braid")
