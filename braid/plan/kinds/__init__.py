"""Kinds of stages, one file each: what a kind is, how it is stored, shown, compared and run."""
