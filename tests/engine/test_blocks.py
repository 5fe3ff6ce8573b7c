from __future__ import annotations

import pyarrow as pa

from braid.core.columns import HASH, KEY, TIME
from braid.core.positions import Position
from braid.core.side import Side
from braid.engine.blocks import LogBlocks
from braid.kernels.join.operator import JoinOperator
from braid.kernels.join.spec import JoinSpec, JoinType
from braid.log import Log
from braid.log.layout import ALL_HASHES

SCHEMA = pa.schema([(HASH, pa.int64()), (TIME, pa.int64()), (f"{KEY}0", pa.int64())])


def test_blocks_that_retention_has_taken_are_not_asked_for(tmp_path):
    """A worker opens a category once, and goes on for months."""
    log = Log(tmp_path)
    category = log.create("left", SCHEMA, shards=1)
    for number in range(4):
        category.append(pa.table([[number], [number], [number]], schema=SCHEMA), wall_time=number)
    reader = log.open("left").reader()
    operator = JoinOperator(JoinSpec(JoinType.INNER, 0, 0, 1, ()))
    blocks = LogBlocks({Side.LEFT: reader, Side.RIGHT: reader}, ALL_HASHES, operator)
    category.retain(2, needed_from=99)
    assert blocks.overlapping(Side.LEFT, Position(3, 0), 0, 99) == [Position(2, 0), Position(3, 0)]
    assert blocks.forgotten(Side.LEFT) == 1
