"""The one programmatic surface of Braid, which the command line and the service are thin layers over."""

from braid.api.applications import run, status
from braid.api.data import Publisher, categories, publish, read, read_batches
from braid.api.programs import (
    FORMATS,
    Compiled,
    compile_file,
    compile_text,
    diff,
    diff_json,
    diff_text,
    explain,
    load_plan,
)

__all__ = [
    "FORMATS",
    "Compiled",
    "Publisher",
    "categories",
    "compile_file",
    "compile_text",
    "diff",
    "diff_json",
    "diff_text",
    "explain",
    "load_plan",
    "publish",
    "read",
    "read_batches",
    "run",
    "status",
]
