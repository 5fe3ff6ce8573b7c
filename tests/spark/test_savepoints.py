"""Savepoints of applications: taken while they run and while they are stopped, and what begins from them."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import duckdb
import pytest

from braid import api
from braid.api.data import publish, read
from braid.core.errors import RunError
from braid.home.paths import Home
from braid.plan.stages.base import Plan
from braid.spark.checkpoints import read_checkpoint
from tests.home.killed import Killed, Mortal

pytestmark = pytest.mark.spark

CHAIN = """
  CREATE APPLICATION {name} WITH (shards = {shards}, chunk_rows = 20, batch_rows = 1000);
  CREATE INPUT TABLE l (id bigint, t timestamp, k string) FROM SCRIBE("l") TIME t;
  CREATE INPUT TABLE r (id bigint, t timestamp, k string) FROM SCRIBE("r") TIME t;
  CREATE INPUT TABLE s (id bigint, t timestamp, k string) FROM SCRIBE("s") TIME t;
  CREATE VIEW first AS SELECT l.id AS lid, l.t AS t, l.k AS k, r.id AS rid FROM l LEFT JOIN r
    ON l.k = r.k AND r.t BETWEEN l.t - INTERVAL '1 hour' AND l.t + INTERVAL '1 hour';
  CREATE TABLE out AS SELECT a.lid AS lid, a.rid AS rid, s.id AS sid FROM first AS a {join} JOIN s
    ON a.k = s.k AND s.t BETWEEN a.t - INTERVAL '1 hour' AND a.t + INTERVAL '1 hour'
    STORAGE SCRIBE(category = "{out}");
  CREATE TABLE plain AS SELECT id, k FROM l STORAGE HIVE(table = "{out}_plain");
"""


def program(name: str = "app", out: str = "out", *, shards: int = 2, join: str = "LEFT") -> Plan:
    return api.compile_text(CHAIN.format(name=name, out=out, shards=shards, join=join)).plan


def rows(*numbers: int) -> list[dict[str, object]]:
    return [{"id": n, "t": 1_700_000_000 + n, "k": f"k{n}"} for n in numbers]


def found(home: Home, category: str) -> Counter[tuple[int, int, int]]:
    table = read(category, home).to_pylist() if home.log().has(category) else []
    return Counter(tuple(-1 if value is None else value for value in row.values()) for row in table)


def run(plan: Plan, home: Home, spark: object, **how: object) -> None:
    handle = api.run(plan, home.root, spark=spark, **how)  # type: ignore[arg-type]
    if "drain" not in how:
        handle.process_available()
        handle.stop()
    handle.wait()


def files(home: Home, table: str) -> Counter[int]:
    folder = home.root / "warehouse" / table
    if not list(folder.glob("**/*.parquet")):
        return Counter()
    found = duckdb.sql(f"SELECT id FROM read_parquet('{folder}/**/*.parquet')").fetchall()
    return Counter(number for (number,) in found)


ALL = range(40)
EXPECTED = Counter((n, n if n % 2 else -1, n if n % 3 else -1) for n in ALL)


def begin(home: Home) -> None:
    """What both halves read before the savepoint: each join has rows that wait, and some that matched."""
    publish("l", rows(*range(20)), home)
    publish("r", rows(*range(1, 10, 2)), home)
    publish("s", rows(1, 2, 4, 5), home)


def go_on(home: Home) -> None:
    """What comes after it."""
    publish("l", rows(*range(20, 40)), home)
    publish("r", rows(*range(11, 40, 2)), home)
    publish("s", [row for row in rows(*range(7, 40)) if row["id"] % 3], home)  # type: ignore[operator]


def restore_killed(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore a copy, killed before each step on the disk, until it is done: nobody runs half of one."""
    mortal, copy, half = Mortal(monkeypatch), home.application("copy"), 0
    for steps in range(0, 1000, 3):
        try:
            with mortal.within(steps):
                api.restore("one", program("copy", "other"), home)
            break
        except Killed:
            if copy.restoring_file.exists():
                half += 1
                with pytest.raises(RunError, match="half restored from savepoint 'one'"):
                    api.run(program("copy", "other"), home)
                if half % 3 == 0:
                    # It can be dropped, with all that it has, and be begun anew.
                    api.drop_application("copy", home)
                    assert not [name for name in home.log().categories() if name.startswith("copy.")]
            else:
                assert not copy.plan_file.exists()
    assert half > 5
    assert not copy.restoring_file.exists()


def test_a_copy_goes_on_from_a_savepoint_of_what_runs(
    spark: object, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(home)
    with api.run(program(), home.root, spark=spark) as handle:  # type: ignore[arg-type]
        handle.process_available()
        taken = api.savepoint("app", home, name="one")
        before, plain = found(home, "out"), files(home, "out_plain")
        assert taken.pending > 0
        assert taken.state_bytes < 100_000
        go_on(home)
        handle.process_available()
    run(program(), home, spark, drain=True)
    assert found(home, "out") == EXPECTED
    restore_killed(home, monkeypatch)
    # The copy has the rows in flight, with other shards, and what came after; not what came out before.
    run(program("copy", "other", shards=3), home, spark, drain=True)
    assert before + found(home, "other") == EXPECTED
    assert plain + files(home, "other_plain") == Counter(ALL)
    # A copy with another program, other tables and less of them is an update of what it begins from.
    text = CHAIN.format(name="third", out="inner", shards=2, join="INNER")
    inner = api.compile_text(text[: text.index("CREATE TABLE plain")]).plan
    run(inner, home, spark, savepoint="one", drain=True)
    assert before + found(home, "inner") == Counter(row for row in EXPECTED if row[2] >= 0) + Counter(
        row for row in before if row[2] < 0
    )
    assert not files(home, "inner_plain")
    [info] = api.savepoints(home=home)
    assert (info.name, info.application) == ("one", "app")
    with pytest.raises(RunError, match="application 'copy' exists"):
        run(program("copy", "other"), home, spark, savepoint="one")
    api.drop_savepoint("one", home)
    assert api.savepoints(home=home) == []


def test_an_application_that_is_gone_goes_on_from_a_savepoint_of_before(
    spark: object, home: Home, tmp_path: Path
) -> None:
    begin(home)
    run(program(), home, spark)
    taken = api.savepoint("app", home, spark=spark)  # type: ignore[arg-type]
    before = found(home, "out")
    with pytest.raises(RunError, match="application 'app' exists"):
        api.restore(taken.name, program(), home)
    go_on(home)
    run(program(), home, spark)
    assert found(home, "out") != before
    api.drop_application("app", home, keep_data=True)
    with pytest.raises(RunError, match="category 'out' has commits after savepoint"):
        api.restore(taken.name, program(), home)
    # Another program is an update of what ran when the savepoint was taken.
    api.drop_category("out", home)
    with pytest.raises(RunError, match="table 'out_plain' has commits after savepoint"):
        api.restore(taken.name, program(), home)
    (home.root / "warehouse" / "out_plain").rename(home.root / "gone")
    # From the command line: workers of a session that goes on remember what categories of these names had.
    text = tmp_path / "inner.sql"
    text.write_text(CHAIN.format(name="app", out="out", shards=2, join="INNER"))
    command = [sys.executable, "-m", "braid.cli", "run", str(text), "--home", str(home.root)]
    subprocess.run(
        [*command, "--from", taken.name, "--drain", "--master", "local[2]"], check=True, timeout=150
    )
    inner = Counter(row for row in EXPECTED if row[2] >= 0)
    assert before + found(home, "out") == inner
    assert files(home, "out_plain") == Counter(range(20, 40))


def test_what_was_published_and_not_noted_is_in_a_savepoint(spark: object, home: Home) -> None:
    """A slicer was killed between the two, and its join has read what it had published."""
    begin(home)
    run(program(), home, spark)
    app = home.application("app")
    for stage in ("first.left", "out.left", "plain"):
        checkpoint = read_checkpoint(app.checkpoint(stage))
        (checkpoint.folder / "commits" / str(checkpoint.done)).unlink()
    before, plain = found(home, "out"), files(home, "out_plain")
    api.savepoint("app", home, name="one", spark=spark)  # type: ignore[arg-type]
    go_on(home)
    run(program("copy", "other"), home, spark, savepoint="one", drain=True)
    assert before + found(home, "other") == EXPECTED
    assert plain + files(home, "other_plain") == Counter(ALL)


def test_an_input_that_is_another_one_is_refused(spark: object, home: Home) -> None:
    begin(home)
    run(program(), home, spark)
    api.savepoint("app", home, name="one", spark=spark)  # type: ignore[arg-type]
    api.drop_application("app", home)
    api.drop_category("l", home)
    for what in ("'l' is gone", "'l' ends at commit -1"):
        with pytest.raises(
            RunError, match=f"category {what}, and savepoint 'one' has read it up to commit 0"
        ):
            api.restore("one", program(), home)
        home.log().create("l", raw=True)


def test_what_retention_has_removed_unread_is_said_and_needs_consent(spark: object, home: Home) -> None:
    begin(home)
    run(program(), home, spark)
    taken = api.savepoint("app", home, spark=spark)  # type: ignore[arg-type]
    before = found(home, "out")
    for number in range(20, 40):
        publish("l", rows(number), home)
    inputs = home.log().open("l")
    assert inputs.retain(2**62, inputs.latest() - 3) > 0
    with pytest.raises(RunError, match=r"removed what savepoint .* has not read yet: 16 commits of l"):
        api.restore(taken.name, program("copy", "other"), home)
    run(program("copy", "other"), home, spark, savepoint=taken.name, discard=True, drain=True)
    assert {row[0] for row in before + found(home, "other")} == {*range(20), *range(36, 40)}
