"""Paths are written as others write them."""

from __future__ import annotations

import pytest

from braid.spark.paths import as_pattern, escaped, is_pattern, located, unescaped


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("/a/b.parquet", "/a/b.parquet"),
        ("/a b/50%", "/a%20b/50%25"),
        ("/ä/日本", "/ä/日本"),
        ("/x=1+2,(3)", "/x=1+2,(3)"),
        ('/"<>^`|#?', "/%22%3C%3E%5E%60%7C%23%3F"),
        ("/\u00a0\u0085", "/%C2%A0%C2%85"),
        ("/\u200c\u00ad\ue000", "/\u200c\u00ad\ue000"),
    ],
)
def test_paths_are_escaped_as_java_does(path: str, uri: str) -> None:
    assert escaped(path) == uri
    assert unescaped(uri) == path
    assert located(f"file://{path}")[1] == path


def test_a_path_as_a_pattern_matches_itself_alone() -> None:
    assert as_pattern("/a b/50%.json") == "/a b/50%.json"
    assert as_pattern("/[x]{y}*?\\") == r"/\[x\]\{y\}\*\?\\"
    assert is_pattern("/[x]")
