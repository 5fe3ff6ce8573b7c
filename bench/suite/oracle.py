"""The right answer, by DuckDB's batch join of the same files, and how an answer compares with it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import duckdb

from suite.spec import PRIME, Answer, Query
from suite.workloads import Dataset

ENOUGH = 0.9999
"""Share of matches below which an answer is wrong, and has no speed."""


@dataclass(frozen=True)
class Verdict:
    """How an answer compares: `missing` and `extra` count matches, `exact` says that all rows are right."""

    exact: bool
    acceptable: bool
    missing: int
    extra: int

    def text(self) -> str:
        """The verdict in a few words."""
        if self.exact:
            return "exact"
        if self.missing:
            return f"{self.missing:,} matches missing"
        return f"{self.extra:,} rows too many" if self.extra else "other rows than expected"


def query_sql(query: Query, left: str, right: str) -> str:
    """The join over two relations with the columns of the files, in DuckDB's SQL."""
    lower, upper = (f"l.t + INTERVAL ({bound}) MILLISECONDS" for bound in (query.lower, query.upper))
    output = "l.id AS l_id, r.id AS r_id, l.key AS key, l.payload AS l_payload, r.payload AS r_payload"
    texts = "".join(f", l.{name} AS l_{name}, r.{name} AS r_{name}" for name in query.texts)
    if query.type == "asof":
        within = f"r.t >= {lower}"
        return (
            f"SELECT l.id AS l_id, CASE WHEN {within} THEN r.id END AS r_id, l.key AS key, "
            f"l.payload AS l_payload, CASE WHEN {within} THEN r.payload END AS r_payload "
            f"FROM {left} l ASOF LEFT JOIN {right} r ON l.key = r.key AND l.t >= r.t"
        )
    keys = "l.key = r.key"
    if query.type == "inner":
        # DuckDB hashes the key alone and tries all pairs of it, which a hot key makes quadratic. With pieces
        # of time as long as the window, a left row's partners are in two neighbouring ones.
        length = query.upper - query.lower + 1
        left = f"(SELECT *, unnest([0, 1]) + (epoch_ms(t) + {query.lower}) // {length} AS piece FROM {left})"
        right = f"(SELECT *, epoch_ms(t) // {length} AS piece FROM {right})"
        keys = "l.key = r.key AND l.piece = r.piece"
    joined = f"{left} l {query.type} JOIN {right} r ON {keys} AND r.t BETWEEN {lower} AND {upper}"
    return f"SELECT {output}{texts} FROM {joined}"


def answer_sql(query: Query, rows: str) -> str:
    """Rows, matches, checksum and what reads every other column, of a relation of joined rows."""
    texts = [f"sum(length({side}_{name}))" for name in query.texts for side in "lr"]
    return (
        "SELECT count(*), count(r_id), "
        f"coalesce(sum(((l_id + 1) * coalesce(r_id + 2, 1)) % {PRIME}), 0)::HUGEINT, "
        f"sum(l_payload), sum(r_payload), max(key){''.join(', ' + text for text in texts)} FROM ({rows})"
    )


def expected(data: Dataset) -> Answer:
    """The right answer; computed once per dataset."""
    path = data.folder / "answer.json"
    if not path.exists():
        with duckdb.connect(config={"threads": 2, "memory_limit": "4GB"}) as connection:
            files = [f"'{data.side(side)}/*.parquet'" for side in ("left", "right")]
            row = connection.execute(answer_sql(data.query, query_sql(data.query, *files))).fetchone()
        assert row is not None
        path.write_text(json.dumps(asdict(Answer(*(int(value) for value in row[:3])))))
    return Answer(**json.loads(path.read_text()))


def compare(query: Query, right: Answer, found: Answer) -> Verdict:
    """Compare an answer with the right one.

    A LEFT join that loses a match gives a padded row instead, so matches tell what is missing, whatever the
    number of rows is.
    """
    missing, extra = max(0, right.matches - found.matches), max(0, found.matches - right.matches)
    if not missing and not extra:
        missing, extra = max(0, right.rows - found.rows), max(0, found.rows - right.rows)
    exact = found == right
    enough = found.matches >= ENOUGH * right.matches and (
        query.type == "inner" or found.rows >= ENOUGH * right.rows
    )
    return Verdict(exact, exact or (enough and not extra and missing > 0), missing, extra)
