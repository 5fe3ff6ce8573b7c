"""Joins of one shard, micro-batch by micro-batch."""
