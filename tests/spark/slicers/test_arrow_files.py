"""What stays in Arrow gives what Catalyst would: expressions after the join, and slicers over files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from braid import api
from braid.core.columns import FILE_CLOCK, FILE_PATH, HASH, NOTE, TIME
from braid.core.errors import LogError, SchemaError
from braid.engine.expressions import compile_column, compile_columns
from braid.engine.notes import Notes
from braid.log import hash_rows
from braid.plan.kinds.slicer import SlicerStage
from braid.plan.stages.base import Projection
from braid.spark.slicers.arrow_files import ArrowSlicer

MICROS = pa.timestamp("us", tz="UTC")
SOURCE = pa.schema([("a", pa.int64()), ("s", pa.string()), ("two words", pa.string())])
BATCH = pa.RecordBatch.from_pydict({"a": [1, None], "s": [None, "x"], "two words": ["y", "z"]}, schema=SOURCE)


@pytest.mark.parametrize(
    ("sql", "kind", "values"),
    [
        ("a", pa.int64(), [1, None]),
        ("`two words`", pa.string(), ["y", "z"]),
        ("COALESCE(s, 'none')", pa.string(), ["none", "x"]),
        ("COALESCE(s, `two words`)", pa.string(), ["y", "x"]),
        ("COALESCE(a, 7)", pa.int64(), [1, 7]),
        ("'text'", pa.string(), ["text", "text"]),
        ("(a)", pa.int64(), [1, None]),
        ("a IS NULL", pa.bool_(), [False, True]),
        ("NOT s IS NULL", pa.bool_(), [False, True]),
    ],
)
def test_simple_expressions(sql: str, kind: pa.DataType, values: list[object]) -> None:
    function = compile_column(sql, SOURCE, kind)
    assert function is not None
    assert function(BATCH).to_pylist() == values


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("a + 1", pa.int64()),
        ("a", pa.int32()),
        ("upper(s)", pa.string()),
        ("COALESCE(a, 1.5)", pa.float64()),
        ("COALESCE(s, 1)", pa.string()),
        ("nowhere", pa.string()),
        ("a IS NULL", pa.string()),
        ("CAST(a AS STRING)", pa.string()),
    ],
)
def test_everything_else_is_left_to_catalyst(sql: str, kind: pa.DataType) -> None:
    assert compile_column(sql, SOURCE, kind) is None
    columns = (Projection("x", "a", "bigint"), Projection("y", sql, "any"))
    target = pa.schema([("x", pa.int64()), ("y", kind)])
    assert compile_columns(columns, SOURCE, target) is None


def slicer_stage(select: str = "l.v AS v", where: str = "") -> SlicerStage:
    plan = api.compile_text(f"""
      CREATE APPLICATION files;
      CREATE INPUT TABLE l (t timestamp, k string, v double) FROM FILES("x", format = "parquet") TIME t;
      CREATE INPUT TABLE r (t timestamp, k string) FROM FILES("y", format = "parquet") TIME t;
      CREATE VIEW j AS SELECT l.k AS k, {select} FROM l LEFT JOIN r ON l.k = r.k
        AND r.t BETWEEN l.t - INTERVAL '1 minute' AND l.t + INTERVAL '1 minute' {where};
      CREATE TABLE out AS SELECT * FROM j STORAGE SCRIBE(category = "out");
    """).plan
    stage = plan.stages[0]
    assert isinstance(stage, SlicerStage)
    return stage


STORED = pa.schema([("t", MICROS), ("k", pa.string()), ("v", pa.float64())])
TARGET = pa.schema([("k", pa.string()), ("v", pa.float64()), ("__key0", pa.string())])


def test_files_are_sliced_one_by_one(tmp_path: Path) -> None:
    slicer = ArrowSlicer.plan(slicer_stage(), STORED, TARGET, max_future=100)
    assert slicer is not None
    slicer = ArrowSlicer.from_dict(slicer.to_dict())
    paths = []
    for number in range(2):
        times = pa.array([number, None, 1_101 + number], MICROS)
        table = pa.table({"v": [0.5, 1.5, 2.5], "k": ["a", None, "ä"], "t": times})
        paths.append(tmp_path / f"{number} %20 file.parquet")
        pq.write_table(table, paths[-1])
    named = pa.RecordBatch.from_pydict(
        {FILE_PATH: [f"file:{path}" for path in paths], FILE_CLOCK: [1_000, 1_000]}
    )
    first, second = (list(part) for part in slicer.files(iter([named])))
    assert [batch.num_rows for batch in (*first, *second)] == [3, 3]
    rows = first[0]
    assert rows[HASH].to_pylist() == hash_rows([pa.array(["a", None, "ä"])]).tolist()
    assert rows["__key0"].to_pylist() == rows["k"].to_pylist() == ["a", None, "ä"]
    assert rows[TIME].to_pylist() == [0, None, None]
    notes = Notes()
    assert [kept.num_rows for kept in notes.strip(iter(first))] == [3]
    reasons, details, raw = notes.columns()
    assert reasons.to_pylist() == ["invalid_time", "invalid_time"]
    assert details.to_pylist() == ["missing or unreadable", "in the future"]
    assert '"v":1.5' in raw[0].as_py()
    assert second[0][NOTE].null_count == 1


def test_slicers_that_compute_are_left_to_catalyst() -> None:
    assert ArrowSlicer.plan(slicer_stage("l.v + 1 AS v"), STORED, TARGET, 0) is None
    assert ArrowSlicer.plan(slicer_stage(where="WHERE l.v > 0"), STORED, TARGET, 0) is None
    other = STORED.set(0, pa.field("t", pa.string()))
    assert ArrowSlicer.plan(slicer_stage(), other, TARGET, 0) is None


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    slicer = ArrowSlicer.plan(slicer_stage(), STORED, TARGET, max_future=0)
    assert slicer is not None
    path = tmp_path / "bad.parquet"
    path.write_bytes(b"PAR1 nothing")
    named = pa.RecordBatch.from_pydict({FILE_PATH: [f"file:{path}"], FILE_CLOCK: [0]})
    with pytest.raises(LogError, match=r"bad\.parquet"):
        list(next(slicer.files(iter([named]))))


def sliced(tmp_path: Path, table: pa.Table) -> pa.Table:
    """The rows of a file that comes after one with the usual columns."""
    slicer = ArrowSlicer.plan(slicer_stage(), STORED, TARGET, max_future=0)
    assert slicer is not None
    path = tmp_path / "later.parquet"
    pq.write_table(table, path)
    named = pa.RecordBatch.from_pydict({FILE_PATH: [f"file:{path}"], FILE_CLOCK: [10**9]})
    return pa.Table.from_batches(next(slicer.files(iter([named]))))


def test_files_unlike_the_first_one_are_read_or_named(tmp_path: Path) -> None:
    times, keys = pa.array([5], MICROS), pa.array(["a"])
    with pytest.raises(SchemaError, match=r"later\.parquet: column 'v' does not exist"):
        sliced(tmp_path, pa.table({"t": times, "k": keys, "w": [1.0]}))
    with pytest.raises(LogError, match=r"later\.parquet: cannot read the file"):
        sliced(tmp_path, pa.table({"t": times, "k": keys, "v": ["one"]}))
    with pytest.raises(LogError, match=r"later\.parquet: cannot read the file"):
        sliced(tmp_path, pa.table({"t": times, "k": keys, "v": [2**60 + 1]}))
    rows = sliced(tmp_path, pa.table({"v": pa.array([1], pa.int32()), "k": keys, "t": times}))
    assert rows["v"].to_pylist() == [1.0]
    far = pa.array([7, 2**62, -(2**62)], pa.timestamp("ms", tz="UTC"))
    rows = sliced(tmp_path, pa.table({"t": far, "k": ["a"] * 3, "v": [1.0] * 3}))
    assert rows[TIME].to_pylist() == [7000, None, None]
    assert ["too far off" in note for note in rows[NOTE].to_pylist()[1:]] == [True, True]
