"""The check of a live run: what Braid gave, what it says it has lost, and DuckDB's join of all rows."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa

from suite.live_feed import LiveFeed
from suite.spec import Query

PARTS = 8
"""Keys are joined in so many parts, to bound the memory of a run of hours."""


def check(query: Query, feed: LiveFeed, results: Path, lost: int, letters: pa.Table) -> dict[str, int]:
    """Compare results, as ids in Parquet files, with the LEFT join of everything that was published.

    Returns
    -------
    Numbers of rows: `matches` that DuckDB finds, those that are `missing`, those that Braid says it has
    `lost`, rows that it lists as too late to tell, since the log no longer has what they ask for (`beyond`),
    and what must be 0: `wrong` pairs, `repeated` ones, left rows that have `no_row` at all, those that are
    `padded` though they have a match, or more than once, and missing matches that are `unexplained`: neither
    of the two rows is among the dead letters.
    """
    columns = "id, epoch_ms(t) AS t, key"
    with duckdb.connect(config={"threads": 2, "memory_limit": "6GB"}) as connection:
        for name in ("left", "right"):
            folders = [str(folder / "*.parquet") for folder in (feed.archive(name), feed.side(name))]
            folders = [pattern for pattern in folders if list(Path(pattern).parent.glob("*.parquet"))]
            connection.execute(f"CREATE VIEW {name}_rows AS SELECT {columns} FROM read_parquet({folders})")
        connection.register("letters", letters)
        listed = "SELECT coalesce((raw->>'$.id')::BIGINT, -1) FROM letters WHERE detail = '{}'"
        given = f"read_parquet('{results}/*.parquet')"
        connection.execute("CREATE TABLE expected (l_id BIGINT, r_id BIGINT)")
        for part in range(PARTS):
            mine = f"(SELECT * FROM {{}}_rows WHERE hash(key) % {PARTS} = {part})"
            connection.execute(
                f"INSERT INTO expected SELECT l.id, r.id FROM {mine.format('left')} l "
                f"JOIN {mine.format('right')} r ON l.key = r.key "
                f"AND r.t BETWEEN l.t + {query.lower} AND l.t + {query.upper}"
            )

        def count(sql: str) -> int:
            row = connection.execute(f"SELECT count(*) FROM ({sql})").fetchone()
            assert row is not None
            return int(row[0])

        pairs = f"SELECT l_id, r_id FROM {given} WHERE r_id IS NOT NULL"
        padded = f"SELECT l_id FROM {given} WHERE r_id IS NULL"
        missing = f"FROM expected EXCEPT {pairs}"
        return {
            "left_rows": count("SELECT id FROM left_rows"),
            "right_rows": count("SELECT id FROM right_rows"),
            "matches": count("FROM expected"),
            "missing": count(missing),
            "lost": lost,
            "beyond": count("FROM letters WHERE reason = 'beyond_retention'"),
            "unexplained": count(
                f"FROM ({missing}) WHERE l_id NOT IN ({listed.format('left')}) "
                f"AND r_id NOT IN ({listed.format('right')})"
            ),
            "wrong": count(f"{pairs} EXCEPT FROM expected"),
            "repeated": count(pairs) - count(f"SELECT DISTINCT * FROM ({pairs})"),
            "no_row": count(f"SELECT id FROM left_rows EXCEPT SELECT l_id FROM {given}"),
            "padded": count(padded) - count(f"SELECT id FROM left_rows EXCEPT SELECT l_id FROM ({pairs})"),
        }
