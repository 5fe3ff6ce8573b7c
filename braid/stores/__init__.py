"""Stores beside the log: tables that applications write, look up and query."""
