"""PQL: program text to a typed query."""

from braid.lang.compiler import compile_text
from braid.lang.errors import PqlError

__all__ = ["PqlError", "compile_text"]
