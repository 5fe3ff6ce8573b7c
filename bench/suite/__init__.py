"""Braid beside other systems on the same files: see `bench/README.md`."""
