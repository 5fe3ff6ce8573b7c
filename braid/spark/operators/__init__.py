"""Stateful operators: steps in, results out, one shard per state key."""
