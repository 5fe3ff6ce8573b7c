"""PQL: program text to a typed query."""
