"""Programs that several tests share."""

from __future__ import annotations

from pathlib import Path

from braid.lang import compile_text
from braid.lang.query import Join, JoinSelect, Query

FIXTURES = Path(__file__).parents[1] / "fixtures" / "lang"
FIGURE_3 = (FIXTURES / "figure3.sql").read_text()

STREAMS = """
CREATE APPLICATION app;
CREATE INPUT TABLE l (t, k, x, n INT, u TIMESTAMP) FROM SCRIBE("l") TIME t;
CREATE INPUT TABLE r (t, k, y, m INT, u TIMESTAMP) FROM SCRIBE("r") TIME t;
CREATE INPUT TABLE s (t, k, z) FROM SCRIBE("s") TIME t;
"""
HOUR = "r.t BETWEEN l.t AND l.t + INTERVAL '1 hour'"


def joined(on: str, kind: str = "JOIN", match: str = "") -> Join:
    """The only join of a view over `l` and `r`."""
    query = compile_text(f"{STREAMS} CREATE VIEW v AS SELECT l.k FROM l {kind} r ON {on} {match};")
    select = query.views[0].select
    assert isinstance(select, JoinSelect)
    return select.joins[0]


def column_types(query: Query, table: str) -> dict[str, str]:
    """Types of a table's or view's columns by name."""
    relations = {relation.name: relation for relation in (*query.inputs, *query.views, *query.tables)}
    return {column.name: column.type for column in relations[table].columns}
