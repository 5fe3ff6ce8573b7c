"""Blocks as joins see them: which of their rows can match."""

from __future__ import annotations

import pyarrow as pa
import pytest

from braid.core.columns import LIVE, TIME
from braid.kernels.join.parse import parse
from braid.kernels.join.spec import JoinSpec, JoinType
from tests.kernels.join.harness import OUTPUT, schema, to_block

SPEC = JoinSpec(JoinType.LEFT, 0, 0, 1, OUTPUT)


@pytest.mark.parametrize(("live", "matches"), [(True, True), (False, False), (None, True)])
def test_a_row_matches_unless_a_condition_has_said_that_it_does_not(live: bool | None, matches: bool) -> None:
    """A condition that an update has taken away is NULL from then on."""
    row = {"id": 1, TIME: 5, LIVE: live, "__key0": "k", "x": None}
    parsed = parse(to_block([row], schema([pa.string()]), 1), SPEC, 0)
    assert (len(parsed.run.row), len(parsed.inert)) == ((1, 0) if matches else (0, 1))
