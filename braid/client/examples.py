"""An example of each model that goes over HTTP, as the description of the API shows them."""

from __future__ import annotations

from typing import Any

_HASH = "9f2c4e7ab1d05836c7e1f9a2b4d6083c5e7f9a1b3c5d7e9f1a3b5c7d9e1f3a5b"
_COMMIT = "8f3c0e1d2b4a59687c7d6e5f4a3b2c1d0e9f8a7b"
_AT = 1_763_456_789.25
PROGRAM = """\
CREATE APPLICATION search_app;
CREATE INPUT TABLE queries (id string, at timestamp, text string) FROM SCRIBE("queries") TIME at;
CREATE INPUT TABLE clicks (id string, at timestamp, url string) FROM SCRIBE("clicks") TIME at;
CREATE TABLE clicked AS SELECT q.id AS id, q.text AS text, c.url AS url
  FROM queries q LEFT JOIN clicks c ON q.id = c.id AND c.at BETWEEN q.at AND q.at + INTERVAL '10 minutes'
  STORAGE SCRIBE(category = "clicked");
"""
_VERSION = {
    "number": 2,
    "state": "accepted",
    "author": "ann",
    "created": _AT,
    "hash": _HASH,
    "verdict": "kept",
    "changes": ["clicked: column 'url' is added"],
    "approved_by": None,
    "options": {"shards": "4"},
    "resources": {"memory": "2g"},
    "program": None,
}
_FILE = {
    "path": "apps/search_app.sql",
    "application": "search_app",
    "state": "problem",
    "problem": "the update of 'search_app' replays inputs; nobody has agreed to that",
    "hint": "write `agree: [replay]` into apps/search_app.yaml, or take the change back",
    "version": 2,
    "commit": _COMMIT,
}
_INPUT = {"rows": 20_000, "dead": 2, "rate": 150.0, "basis": "times of commits"}
_STAGE = {"rows_in": 300.0, "rows_out": 150.0, "held": {"q": 45_000.0}, "match_rate": {"q": 0.42}}
_TRIAL: dict[str, Any] = {
    "state": "done",
    "why": None,
    "where": None,
    "rows_in": 300.0,
    "rows_out": 150.0,
    "rows_held": 45_000.0,
    "memory": 1.4e9,
    "checkpoint": 3.1e6,
    "log_per_day": 2.6e9,
    "inputs": {"queries": _INPUT},
    "stages": {"clicked": _STAGE},
    "notes": [],
}
_QUOTA = {
    "name": "rows_held",
    "figure": 45_000.0,
    "limit": 1_000_000.0,
    "text": "45,000 rows held, and 1,000,000 is the most",
    "kept": True,
}
EXAMPLES: dict[str, dict[str, Any]] = {
    "Problem": {
        "what": "there is no application 'clicks'",
        "where": None,
        "hint": "applications: search_app",
    },
    "Health": {"well": True},
    "Service": {
        "version": "0.2.0",
        "home": "/var/lib/braid",
        "started": _AT,
        "applications": 3,
        "review": "none",
        "registry": "sqlite",
    },
    "ChangeInfo": {
        "subject": "clicked",
        "kind": "column.added",
        "detail": "column 'url' is added",
        "verdict": "kept",
        "reason": "rows in flight get it, too",
        "alternatives": [],
    },
    "Program": {"program": PROGRAM, "options": {"shards": "4"}, "resources": {"memory": "2g"}},
    "InputTrial": _INPUT,
    "StageTrial": _STAGE,
    "TrialInfo": _TRIAL,
    "QuotaInfo": _QUOTA,
    "PlanInfo": {
        "application": "search_app",
        "new": True,
        "verdict": None,
        "changes": [],
        "warnings": [],
        "in_flight": {},
        "removes": [],
        "stages": ["clicked.left", "clicked.right", "clicked"],
        "resources": {"memory": "2g"},
        "hash": _HASH,
        "trial": _TRIAL,
        "quotas": [_QUOTA],
    },
    "Deploy": {
        "program": PROGRAM,
        "options": {"shards": "4"},
        "resources": {"memory": "2g"},
        "hash": None,
        "replay": False,
        "discard": False,
        "remove": False,
        "create": True,
    },
    "Rollback": {"version": 1, "replay": False, "discard": False, "remove": False},
    "Approval": {"hash": _HASH},
    "VersionInfo": _VERSION,
    "ApplicationInfo": {
        "name": "search_app",
        "desired": "running",
        "version": 2,
        "state": "running",
        "running_version": 2,
        "waiting": None,
        "pool": None,
        "pid": 4711,
        "started": _AT,
        "restarts": 0,
        "next_start": None,
        "error": None,
        "status": None,
    },
    "EventInfo": {
        "id": 17,
        "at": _AT,
        "application": "search_app",
        "kind": "version",
        "text": "version 2 by ann",
        "data": {"version": 2, "verdict": "kept"},
    },
    "AuditInfo": {
        "id": 5,
        "at": _AT,
        "who": "ann",
        "source": "127.0.0.1",
        "action": "deploy",
        "target": "search_app",
        "before": {"version": 1},
        "after": {"version": 2, "hash": _HASH},
    },
    "NewToken": {"name": "ann", "role": "editor", "rows": False, "days": 30, "only": ["search_*"]},
    "TokenInfo": {
        "id": "3f9a1b2c4d5e",
        "name": "ann",
        "role": "editor",
        "rows": False,
        "only": ["search_*"],
        "created": _AT,
        "expires": _AT + 30 * 86_400,
        "used": None,
        "secret": None,
    },
    "WhoAmI": {
        "name": "ann",
        "by": "token",
        "role": "editor",
        "rows": False,
        "only": ["search_*"],
        "source": "127.0.0.1",
    },
    "LogLines": {"lines": ['{"event": "started", "query": "clicked", "level": "info"}'], "next": 812},
    "Deleted": {
        "removed": ["application search_app", "category clicked: 12,345 bytes"],
        "kept": ["category queries"],
    },
    "Records": {"records": [{"id": "q1", "at": _AT, "text": "shoes"}]},
    "Published": {"published": 1},
    "Rows": {"rows": [{"id": "q1", "text": "shoes", "url": "https://shop.example/1"}]},
    "CategoryTold": {
        "name": "clicked",
        "owner": "search_app",
        "commits": 120,
        "rows": 4_500,
        "bytes": 198_345,
    },
    "FileInfo": _FILE,
    "RepoInfo": {
        "repo": "https://git.example/team/streams.git",
        "branch": "main",
        "folder": "apps",
        "commit": _COMMIT,
        "looked": _AT,
        "trouble": "git ls-remote: unable to access 'https://git.example/team/streams.git/'",
        "files": [_FILE],
    },
}


def with_example(schema: dict[str, Any], model: type[object]) -> None:
    """Add the example of a model to its schema."""
    found = EXAMPLES.get(model.__name__)
    if found is not None:
        schema["examples"] = [found]
