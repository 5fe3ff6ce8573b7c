"""`DEDUPLICATE(TABLE t PARTITION BY key ORDER BY time, within => INTERVAL '...')`."""

from __future__ import annotations

from braid.lang.operators.declaration import Declaration

DECLARATION = Declaration("DEDUPLICATE", lengths=("within",))
