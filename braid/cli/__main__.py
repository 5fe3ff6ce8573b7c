"""`python -m braid.cli` is the `braid` command."""

from braid.cli.main import app

app()
