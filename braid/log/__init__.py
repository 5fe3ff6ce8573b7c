"""The block log: durable, append-only categories of hash-sorted Arrow blocks."""
