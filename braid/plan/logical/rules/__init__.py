"""Rewrite rules, one per file; each takes a typed query and gives one that means the same."""
