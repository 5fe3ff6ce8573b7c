"""Paths of files, as Spark, Java and Arrow write them."""

from __future__ import annotations

import unicodedata
import urllib.parse

from pyarrow import fs

_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-!.~'()*:@&=+$,;/")


_SPECIAL = frozenset("*?[]{}\\")


def is_pattern(path: str) -> bool:
    """Whether Hadoop takes a path for a pattern."""
    return not _SPECIAL.isdisjoint(path)


def as_pattern(path: str) -> str:
    """The pattern that only a path matches."""
    return "".join(f"\\{one}" if one in _SPECIAL else one for one in path)


def located(path: str) -> tuple[fs.FileSystem, str]:
    """Where Arrow finds a file, whose path Spark has written with a scheme but without escapes."""
    filesystem, where = fs.FileSystem.from_uri(urllib.parse.quote(path, safe=":/"))
    return filesystem, str(where)


def escaped(path: str) -> str:
    """A path as `java.net.URI` writes it: what is legal stays, and so does most of what is beyond ASCII."""
    return "".join(
        one if one in _LEGAL or _is_other(one) else urllib.parse.quote(one, safe="") for one in path
    )


def _is_other(one: str) -> bool:
    """Whether a character is of Java's category *other*: neither ASCII nor a control nor a space."""
    return ord(one) > 0x9F and unicodedata.category(one) not in ("Zs", "Zl", "Zp")


def unescaped(uri: str) -> str:
    """What `escaped` was given."""
    return urllib.parse.unquote(uri)
