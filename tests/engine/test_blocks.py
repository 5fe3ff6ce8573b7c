from __future__ import annotations

import pyarrow as pa

from braid.core.columns import HASH, KEY, TIME
from braid.core.hashes import ALL_HASHES
from braid.core.positions import Position
from braid.core.side import Side
from braid.core.times import MIN_TIME
from braid.engine.blocks import LogBlocks
from braid.kernels.join.operator import JoinOperator
from braid.kernels.join.spec import JoinSpec, JoinType, OutputColumn
from braid.kernels.step import Output, Step
from braid.log import Log
from braid.log.category import Category

SCHEMA = pa.schema([(HASH, pa.int64()), (TIME, pa.int64()), (f"{KEY}0", pa.int64())])


def opened(root) -> tuple[Category, LogBlocks]:
    """A category of four commits, and the blocks of a worker that opens it once, and goes on for months."""
    log = Log(root)
    category = log.create("left", SCHEMA, shards=1)
    for number in range(4):
        category.append(pa.table([[number], [number], [number]], schema=SCHEMA), wall_time=number)
    reader = log.open("left").reader()
    operator = JoinOperator(JoinSpec(JoinType.INNER, 0, 0, 1, ()))
    return category, LogBlocks({Side.LEFT: reader, Side.RIGHT: reader}, ALL_HASHES, operator)


def test_blocks_that_retention_has_taken_are_not_asked_for(tmp_path):
    category, blocks = opened(tmp_path)
    category.retain(2, needed_from=99)
    assert blocks.overlapping(Side.LEFT, Position(3, 0), 0, 99) == [Position(2, 0), Position(3, 0)]
    assert blocks.forgotten(Side.LEFT) == 1


def test_what_retention_has_taken_is_known_at_once(tmp_path):
    """A late row is told whether its partners may be gone, however seldom rows are late."""
    category, blocks = opened(tmp_path)
    assert blocks.forgotten(Side.LEFT) == MIN_TIME
    category.retain(2, needed_from=99)
    assert blocks.forgotten(Side.LEFT) == 1


def test_a_late_row_beyond_retention_is_listed_by_a_worker_that_has_run_for_long(tmp_path):
    log = Log(tmp_path)
    sides = {side: log.create(side, SCHEMA, shards=1) for side in Side}
    readers = {side: log.open(side).reader() for side in Side}
    operator = JoinOperator(JoinSpec(JoinType.INNER, 0, 0, 1, (OutputColumn("k", Side.LEFT, f"{KEY}0"),)))
    join = operator.open(LogBlocks(readers, ALL_HASHES, operator))

    def step(times: dict[Side, int], **added: int) -> Output:
        blocks: dict[str, list[Position]] = {side: [] for side in Side}
        for side, time in added.items():
            commit = sides[Side(side)].append(pa.table([[7], [time], [7]], schema=SCHEMA), wall_time=time)
            blocks[side] = [Position(commit, 0)]
        return join.step(Step(blocks, times))

    step({Side.LEFT: 0, Side.RIGHT: 0}, right=1)
    step({Side.LEFT: 100, Side.RIGHT: 100}, left=90, right=90)
    found = step({Side.LEFT: 100, Side.RIGHT: 100}, left=1)
    assert (found.rows.num_rows, found.lost.num_rows) == (1, 0)  # found in the log
    sides[Side.RIGHT].retain(50, needed_from=1)
    lost = step({Side.LEFT: 100, Side.RIGHT: 100}, left=1)
    assert lost.rows.num_rows == 0
    assert lost.lost["reason"].to_pylist() == ["beyond_retention"]
