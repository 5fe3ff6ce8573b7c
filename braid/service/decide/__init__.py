"""Decisions of the loops: pure functions of records and a clock that is passed in."""
