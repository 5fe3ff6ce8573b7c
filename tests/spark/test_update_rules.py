"""Rules of the update table, each with rows in flight: several changes in a row, on one home."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from braid import api
from braid.api.data import publish, read
from braid.core.errors import RunError
from braid.home.paths import Home
from braid.plan.kinds.deduplicate import DeduplicateStage
from braid.plan.stages.base import Plan, Stage
from braid.spark.updating import UpdateSteps
from braid.stores.lookup import LookupStore

pytestmark = pytest.mark.spark

BEGIN = 1_700_000_000
ORDERED = "TIME t ORDERED"
WINDOW = "l.k = r.k AND r.t BETWEEN l.t {0} INTERVAL '{1} seconds' AND l.t {2} INTERVAL '{3} seconds'"
NEAR = WINDOW.format("-", 60, "+", 60)
PAIR = "SELECT l.id AS lid, r.id AS rid FROM l"


def stored(select: str, name: str = "out", storage: str = "SCRIBE(category = '{}')") -> str:
    """A table, in a category of its name unless it is said otherwise."""
    return f"CREATE TABLE {name} AS {select} STORAGE {storage.format(name)};"


def program(text: str, time: str = ORDERED, n: str = "bigint", **options: object) -> Plan:
    """A program over two inputs."""
    settings = ", ".join(
        f"{name} = '{value}'" for name, value in ({"shards": 2, "chunk_rows": 50} | options).items()
    )
    inputs = "".join(
        f"CREATE INPUT TABLE {name} (id bigint, t timestamp, k string, n {n}, m bigint) "
        f'FROM SCRIBE("{name}") {time};\n'
        for name in ("l", "r")
    )
    return api.compile_text(f"CREATE APPLICATION app WITH ({settings});\n{inputs}{text}").plan


def row(number: int, key: str, at: int, n: int = 0, m: int = 0) -> dict[str, object]:
    """A row by number, key and seconds."""
    return {"id": number, "k": key, "t": BEGIN + at, "n": n, "m": m}


Row = tuple[Any, ...]


class Steps:
    """An application that runs one program after the other."""

    def __init__(self, home: Home, spark: object) -> None:
        self.home, self.spark = home, spark
        self.seen: dict[str, int] = {}

    def run(
        self,
        plan: Plan,
        *kinds: str,
        left: Iterable[dict[str, object]] = (),
        right: Iterable[dict[str, object]] = (),
        drain: bool = False,
    ) -> list[Row]:
        """New rows of `out` when a program, which changes what `kinds` say, has taken in further rows."""
        publish("l", left, self.home)
        publish("r", right, self.home)
        found = api.update_of(plan, self.home)
        assert {change.kind for change in found.found.changes} == set(kinds) if found else not kinds
        agreed = found is not None and found.found.verdict.value == "replayed"
        handle = api.run(
            plan,
            self.home.root,
            spark=self.spark,  # type: ignore[arg-type]
            replay=agreed,
            discard=agreed,
            drain=drain,
        )
        if not drain:
            handle.process_available()
            handle.stop()
        handle.wait()
        return self.fresh("out")

    def fresh(self, output: str) -> list[Row]:
        """What has come into a category since it was asked for last."""
        there = self.home.log().has(output)
        rows = [tuple(row.values()) for row in read(output, self.home).to_pylist()] if there else []
        fresh = rows[self.seen.get(output, 0) :]
        self.seen[output] = len(rows)
        return sorted(fresh, key=str)


def window(below: int, above: int, sign: str = "+", type_: str = "LEFT JOIN") -> str:
    """A window join, from so many seconds before to so many after, or before, the left row."""
    return stored(f"{PAIR} {type_} r ON {WINDOW.format('-', below, sign, above)}")


def test_windows_and_shards_change(spark: object, home: Home) -> None:
    steps = Steps(home, spark)
    first = [row(1, "a", 0), row(2, "b", 0), row(3, "c", 50)]
    other = [row(11, "a", 0), row(12, "z", 50)]
    assert steps.run(program(window(60, 60)), left=first, right=other) == [(1, 11)]
    # Rows of before are found as far back as the new window says, on both sides.
    wider = program(window(120, 120), shards=3)
    changes = ("join.window_widened", "shards.changed")
    found = steps.run(wider, *changes, left=[row(4, "z", 160)], right=[row(13, "b", 100)])
    assert found == [(2, 13), (4, 12)]
    # Row 3 falls out of the window that was open for it; row 15 is too far away from row 5.
    narrower = program(window(30, 30), shards=3)
    right = [row(14, "c", 100), row(15, "z", 170)]
    found = steps.run(narrower, "join.window_narrowed", left=[row(5, "z", 205)], right=right)
    assert found == [(3, None), (4, 15)]
    # A pair is judged when its later row comes: rows 5 and 15 have both been there.
    moved = program(window(60, 20, "-"), shards=3)
    left, right = [row(6, "z", 210)], [row(16, "y", 300)]
    found = steps.run(moved, "join.window_moved", left=left, right=right, drain=True)
    assert found == [(5, None), (6, 15)]


def test_stream_times_options_and_retention_change(spark: object, home: Home) -> None:
    steps, text = Steps(home, spark), window(60, 60)
    patient = program(text, "TIME t ORDERED WITHIN INTERVAL '1' HOUR")
    first = [row(1, "a", 0), row(2, "b", 0)]
    assert steps.run(patient, left=first, right=[row(11, "z", 100)]) == []
    # Stream time moves on in the new way as soon as rows come.
    right = [row(12, "b", 60), row(13, "z", 101)]
    found = steps.run(program(text), "input.ordered", left=[row(3, "q", 5)], right=right)
    assert found == [(1, None), (2, 12), (3, None)]
    # It stays where it is: no row is decided before the time that was reached.
    rest = [row(4, "d", 210), row(5, "d", 211), row(6, "e", 212)]
    free = program(text, "TIME t", stream_time="ascending")
    changes = ("input.ordered", "stream_time.changed")
    assert steps.run(free, *changes, left=rest, right=[row(14, "q", 102)]) == []
    # Rows in flight are counted with the new ones of their key; others stay as they are.
    capped = program(text, "TIME t", stream_time="ascending", max_per_key=1, retention="0 seconds")
    changes = ("option.changed", "retention.shortened")
    assert steps.run(capped, *changes, left=[row(7, "d", 212)]) == [(4, None), (5, None)]
    # What a stage needs stays for longer than retention says.
    assert api.upkeep(home).troubles == ()
    right = [row(15, "d", 212), row(16, "e", 212)]
    assert steps.run(capped, right=right, drain=True) == [(6, 16), (7, 15)]


def test_conditions_change(spark: object, home: Home) -> None:
    steps = Steps(home, spark)

    def conditions(residual: str, live: str = "", where: str = "") -> Plan:
        return program(stored(f"{PAIR} LEFT JOIN r ON {NEAR} AND l.n {residual} r.n {live} {where}"))

    first = [row(1, "a", 0, 5), row(2, "b", 0, 0), row(3, "c", 0, 5), row(4, "d", 0, 2)]
    before = conditions("<", "AND l.n > 1")
    assert steps.run(before, left=first, right=[row(11, "c", 0, 1)]) == [(2, None)]
    # Row 4 keeps the answer of the old condition, and row 5 has that of the new one. Rows 3 and 11 have both
    # been judged by the old residual; row 6 meets row 11 by the new one.
    changes = ("join.residual", "join.live_changed")
    right = [row(12, "a", 1, 1), row(13, "b", 1, -5), row(14, "d", 1, 1)]
    after = conditions(">", "AND l.n > 3")
    found = steps.run(after, *changes, left=[row(5, "d", 1, 2), row(6, "c", 1, 5)], right=right)
    assert found == [(1, 12), (4, 14), (5, None), (6, 11)]
    # Rows that came out padded stay so; new ones match whatever they are. Row 3 has passed the old filter.
    changes = ("join.live_removed", "filter.changed")
    none = conditions(">", where="WHERE l.id <> 3 AND l.id <> 7")
    left = [row(7, "a", 2, 9), row(8, "a", 2, 2)]
    right = [row(15, "b", 2, -6), row(16, "d", 2, 0)]
    found = steps.run(none, *changes, left=left, right=right, drain=True)
    assert found == [(3, None), (4, 16), (8, 12)]


def test_how_far_neighbours_may_be_apart_changes(spark: object, home: Home) -> None:
    steps = Steps(home, spark)

    def asof(seconds: int) -> Plan:
        condition = "MATCH_CONDITION (l.t >= r.t) ON l.k = r.k"
        return program(stored(f"{PAIR} ASOF LEFT JOIN r {condition} WITHIN INTERVAL '{seconds} seconds'"))

    first = [row(1, "a", 100), row(2, "b", 100)]
    assert steps.run(asof(60), left=first, right=[row(11, "a", 50), row(12, "b", 80)]) == []
    left = [row(3, "c", 210), row(4, "c", 240)]
    found = steps.run(asof(30), "join.within_narrowed", left=left, right=[row(13, "c", 200)])
    assert found == [(1, None), (2, 12)]
    # Series end by the old rule, and begin anew: row 5 does not see row 13.
    left, right = [row(5, "c", 290), row(6, "z", 395)], [row(14, "z", 300)]
    found = steps.run(asof(100), "join.within_widened", left=left, right=right, drain=True)
    assert found == [(3, 13), (4, None), (5, None), (6, 14)]


def test_padding_and_what_is_computed_before_the_join_change(spark: object, home: Home) -> None:
    steps = Steps(home, spark)

    def padded(more: str = "", type_: str = "LEFT", n: str = "bigint") -> Plan:
        computed = "l.id AS lid, r.id AS rid, CAST(abs(l.n) AS bigint) AS n"
        return program(stored(f"SELECT {computed} FROM l {type_} JOIN r ON {NEAR} {more}"), n=n)

    first = [row(1, "a", 0, -5), row(2, "b", 0, -6)]
    assert steps.run(padded(), left=first, right=[row(11, "b", 0)]) == [(2, 11, 6)]
    # A row that waits comes out at once by the new rule, and stays padded by the old one.
    at_once = padded("EMIT UNMATCHED AFTER INTERVAL '0 seconds'")
    assert steps.run(at_once, "join.unmatched") == [(1, None, 5)]
    third = [row(3, "c", 1, -7)]
    assert steps.run(padded(), "join.unmatched", left=third, right=[row(12, "a", 1)]) == []
    # What has been published is taken in by the old program, from both inputs, before windows are closed.
    full, computed = padded(type_="FULL"), ("column.added", "column.dropped", "column.changed")
    changes = ("join.type", "join.type_operands", *computed)
    right = [row(13, "c", 2), row(14, "d", 2)]
    found = steps.run(full, *changes, left=[row(4, "d", 2, -8)], right=right)
    assert found == [(3, 13, 7), (4, 14, 8)]
    # Blocks get another type, which does not show in what is stored.
    narrow = padded(type_="FULL", n="int")
    left, right = [row(5, "e", 3, -9)], [row(15, "f", 3)]
    found = steps.run(narrow, "input.column_type", left=left, right=right)
    assert found == [(5, None, 9), (None, 15, None)]
    found = steps.run(narrow, left=[row(6, "g", 4, -1)], right=[row(16, "g", 4)], drain=True)
    assert found == [(6, 16, 1)]


def test_the_unit_of_times_changes(spark: object, home: Home) -> None:
    steps = Steps(home, spark)
    both = window(60, 60, type_="JOIN") + stored("SELECT id, t FROM l", "times")
    millis = program(both, "TIME t IN MILLISECONDS ORDERED")
    assert steps.run(millis, left=[row(1, "a", 0)], right=[row(11, "b", 90)]) == []
    assert len(steps.fresh("times")) == 1
    changes = ("input.time_unit", "table.time_unit")
    assert steps.run(program(both), *changes) == []
    # Row 11 is 90 seconds away now, and not 90 milliseconds.
    right = [row(12, "a", 59), row(13, "a", 91)]
    assert steps.run(program(both), left=[row(2, "b", 1)], right=right, drain=True) == [(1, 12)]
    assert [found[1].timestamp() for found in steps.fresh("times")] == [BEGIN + 1]


def once(keys: str, seconds: int, more: str = "") -> Plan:
    """The first rows by keys."""
    view = f"TABLE l PARTITION BY {keys}, within => INTERVAL '{seconds} seconds'"
    text = f"CREATE VIEW v AS SELECT d.id AS lid, d.n AS rid FROM DEDUPLICATE({view}) AS d;"
    return program(text + stored("SELECT lid, rid FROM v") + more)


def test_operators_of_one_input_change(spark: object, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(home, spark)
    second = "FROM DEDUPLICATE(TABLE l PARTITION BY n, within => INTERVAL '9 seconds') AS e;"
    more = f"CREATE VIEW w AS SELECT e.id, e.n {second}" + stored("SELECT id FROM w", "second")
    first = [row(1, "a", 0, 1), row(2, "a", 10, 2), row(3, "b", 10, 3)]
    assert steps.run(once("k", 60), left=first) == [(1, 1)]
    # Rows at the last time are yet to be decided; row 1 hides others for 5 seconds only from now on.
    left = [row(4, "a", 20, 4), row(5, "a", 22, 5)]
    found = steps.run(once("k", 5, more), "stage.adjusted", "stage.added", "table.added", left=left)
    assert found == [(2, 2), (3, 3), (4, 4)]
    assert steps.fresh("second") == [(1,), (2,), (3,), (4,)]
    # What was in flight there is discarded. Rows of before hide nobody who has the same new key.
    assert steps.run(once("n", 5), "stage.keys", "stage.removed", "table.removed") == []
    left = [row(6, "a", 23, 4), row(7, "c", 24, 4), row(8, "d", 50, 9)]
    assert steps.run(once("n", 5), left=left) == [(6, 4)]
    assert steps.fresh("second") == []
    # Of an operator that says nothing about its changes: what is in flight is decided by the old rule.
    monkeypatch.setattr(DeduplicateStage, "adjustable", False)
    assert steps.run(once("n", 60), "stage.changed") == [(8, 9)]
    # Another operator reads its inputs from their start.
    join = f"CREATE VIEW v AS {PAIR} LEFT JOIN r ON {NEAR};" + stored("SELECT lid, rid FROM v")
    changes = ("stage.kind", "table.moved", "column.changed")
    left, right = [row(9, "e", 51, 7)], [row(11, "b", 10), row(12, "z", 71)]
    found = steps.run(program(join), *changes, left=left, right=right)
    assert found == [(1, None), (2, None), (3, 11)]


def test_tables_and_joins_come_and_go(spark: object, home: Home) -> None:
    steps = Steps(home, spark)
    view = f"CREATE VIEW v AS SELECT l.id AS lid, r.id AS rid, l.n AS n FROM l LEFT JOIN r ON {NEAR};"
    rest = (
        "CREATE VIEW w AS SELECT l.id AS a, r.id AS b FROM l JOIN r ON l.n = r.n AND r.t BETWEEN l.t AND l.t;"
    )

    def tables(
        *names: str, place: str = "out", columns: str = "lid, rid", by: str = "", joined: bool = False
    ) -> Plan:
        found = [stored(f"SELECT {columns} FROM v", name, "SCRIBE(category = '{}')") for name in names]
        first = stored(f"SELECT {columns} FROM v", "out", f"SCRIBE(category = '{place}') {by}")
        other = rest + stored("SELECT a, b FROM w", "other") if joined else ""
        return program(view + first + "".join(found) + other)

    first = [row(1, "a", 0, 1), row(2, "b", 0, 2), row(3, "c", 0, 3), row(4, "d", 0, 4)]
    assert steps.run(tables(), left=first, right=[row(11, "a", 0)]) == [(1, 11)]
    # The rows of the view are stored once for both tables, then not any more, and then again. The table that
    # comes back goes on where it was.
    moved = ("table.moved", "sink.changed", "column.changed")
    both = tables("two")
    assert steps.run(both, *moved, "table.added", right=[row(12, "b", 2)]) == [(2, 12)]
    assert steps.fresh("two") == [(2, 12)]
    assert steps.run(tables(), *moved, "table.removed", right=[row(13, "c", 3)]) == [(3, 13)]
    assert steps.run(both, *moved, right=[row(14, "d", 4)]) == [(4, 14)]
    assert steps.fresh("two") == [(4, 14)]
    left, right = [row(5, "e", 5, 5), row(6, "f", 5, 6)], [row(15, "e", 5, 5)]
    other = tables("two", place="elsewhere", by="SHARD BY lid", joined=True)
    assert steps.run(other, "sink.changed", "join.added", "table.added", left=left, right=right) == []
    assert steps.fresh("elsewhere") == steps.fresh("two") == [(5, 15)]
    assert steps.fresh("other") == [(5, 15)]
    # Columns are found by name. Row 6 comes out when its time is up, wherever that is, with what was sliced.
    changed = tables("two", place="elsewhere", columns="rid, lid, n + 1 AS n", by="SHARD BY rid")
    changes = ("sink.options", "join.removed", "table.removed", "column.added", "column.reordered")
    assert steps.run(changed, *changes, drain=True) == []
    assert steps.fresh("elsewhere") == steps.fresh("two") == [(6, None, 7)]


def test_columns_and_lookups_change(spark: object, home: Home) -> None:
    steps = Steps(home, spark)
    store, names = LookupStore(home.root), pa.table({"k": ["a", "b", "c"], "name": ["A", "B", "C"]})
    for table, kept in (("some", names.slice(1)), ("all", names)):
        with store.create(table, names.select(["k"]).schema, names.select(["name"]).schema) as opened:
            opened.upsert(kept, writer="test", batch_id=0, now_us=1)

    def columns(
        more: str, table: str = "some", copy: str = "n", place: str = "one", rest: str = "", key: str = "id"
    ) -> Plan:
        lookup = f'LEFT JOIN LOOKUP("{table}") AS d (k STRING, name STRING) ON d.k = l.k'
        joined = stored(f"SELECT l.id AS lid, {more} FROM l JOIN r ON {NEAR} {lookup}")
        copied = stored(f"SELECT id, {copy} AS n FROM l", "copy", f"SCRIBE(category = '{place}') {rest}")
        kept = stored("SELECT id, n, m FROM l", "kept", f"LASER(table = 'kept', key = ({key}))")
        return program(joined + copied + kept)

    before = columns("l.n AS n, l.m AS gone, d.name")
    first = [row(1, "a", 0, 1, 7), row(2, "b", 0, 2, 8)]
    assert steps.run(before, left=first, right=[row(11, "b", 0)]) == [(2, 2, 8, "B")]
    # What comes after the join is done in the new way with rows in flight, too; they have what was sliced.
    more = "d.name, l.n + 100 AS n, l.k AS k, l.m + r.m AS m"
    after = columns(more, table="all", copy="CAST(n AS string)", place="two")
    changes = ("column.added", "column.changed", "column.dropped", "column.reordered", "lookup.changed")
    left, right = [row(3, "c", 1, 3, 5)], [row(12, "a", 1, 0, 9), row(13, "c", 1, 0, 9)]
    moved = ("column.retyped", "sink.changed")
    found = steps.run(after, *changes, *moved, left=left, right=right)
    assert found == [(1, 101, None, "A", "a", 16), (3, 103, None, "C", "c", 14)]
    assert steps.fresh("one") == [(1, 1), (2, 2)]
    assert steps.fresh("two") == [(3, "3")]
    # What cannot go on from what is stored is refused before anything is touched.
    for rule, refused in {
        "column.type": columns(more, table="all", copy="id", place="two"),
        "sink.sharded": columns(more, "all", "CAST(n AS string)", "two", "SHARD BY id"),
        "sink.keys": columns(more, "all", "CAST(n AS string)", "two", key="id, n"),
    }.items():
        with pytest.raises(RunError, match="refused"):
            steps.run(refused, rule)


def test_a_table_gets_another_source(spark: object, home: Home, tmp_path: Path) -> None:
    steps = Steps(home, spark)

    def plain(source: str, more: str = "") -> Plan:
        files = f"CREATE INPUT TABLE f (id bigint, n bigint) FROM FILES('{tmp_path / 'f'}'{more});"
        hive = stored(f"SELECT id, n FROM {source}", "hive", "HIVE(table = '{}')")
        return program(files + stored(f"SELECT id, n FROM {source}") + hive)

    def put(name: str, *numbers: int) -> None:
        lines = (json.dumps({"id": number, "n": 0}) for number in numbers)
        (tmp_path / "f" / name).write_text("\n".join(lines))

    def hive() -> set[int]:
        found = pq.read_table(home.root / "warehouse" / "hive", columns=["id"], partitioning=None)
        assert found.num_rows == len(set(found["id"].to_pylist()))
        return set(found["id"].to_pylist())

    (tmp_path / "f").mkdir()
    put("1.json", 21, 22)
    first = [row(1, "a", 0), row(2, "b", 0)]
    assert steps.run(plain("l"), left=first, right=[row(11, "a", 0)]) == [(1, 0), (2, 0)]
    # What the old source has not given yet comes first, and once.
    assert steps.run(plain("r"), "input.source", left=[row(3, "c", 1)]) == [(11, 0), (3, 0)]
    assert steps.run(plain("r"), left=[row(4, "d", 2)], right=[row(12, "b", 3)]) == [(12, 0)]
    assert hive() == {1, 2, 3, 11, 12}
    # It is done once, whatever is killed, and the old program cannot go on any more once it has begun.
    real, left_over = UpdateSteps.begin_anew, [1]

    def killed(self: UpdateSteps, stage: Stage) -> None:
        if not left_over:
            raise RunError("the power has failed")
        left_over.pop()
        real(self, stage)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(UpdateSteps, "begin_anew", killed)
        with pytest.raises(RunError, match="the power has failed"):
            steps.run(plain("f"), "input.source")
    with pytest.raises(RunError, match="was interrupted"):
        steps.run(plain("r"))
    assert steps.run(plain("f"), "input.source", right=[row(13, "c", 4)]) == [(21, 0), (22, 0)]
    assert hive() == {1, 2, 3, 11, 12, 21, 22}
    put("2.json", 23)
    assert steps.run(plain("f", more=", maxFilesPerTrigger = '1'"), "input.options") == [(23, 0)]
    # A join in its place decides its rows early when it goes, and reads its inputs from their start.
    join = program(stored(f"SELECT l.id AS id, r.id AS n FROM l LEFT JOIN r ON {NEAR}"))
    changes = ("join.added", "input.source", "column.changed", "table.removed")
    assert steps.run(join, *changes) == [(1, 11), (2, 12), (3, 13)]
    found = steps.run(program(stored("SELECT id, n FROM r")), "join.removed", *changes[1:3])
    assert found == [(11, 0), (12, 0), (13, 0), (4, None)]
