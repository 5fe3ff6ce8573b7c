"""Loops that compare what should be with what is, and make one careful step towards it."""
