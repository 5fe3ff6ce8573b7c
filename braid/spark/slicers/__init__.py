"""Slicers: parse, filter, project, look up, hash; in Catalyst, or over Arrow batches."""
