"""Shared set-up of the tests."""

from __future__ import annotations

from hypothesis import Phase, settings

# Explaining a failure costs minutes and rarely says more than the shrunk example.
settings.register_profile("braid", deadline=None, phases=[p for p in Phase if p is not Phase.explain])
settings.load_profile("braid")
