"""Braid: streaming joins as a service, on Apache Spark."""

__version__ = "0.1.0"
