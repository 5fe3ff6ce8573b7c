"""Checks and pages that are written from the code."""
