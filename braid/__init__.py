"""Braid: streaming joins as a service, on Apache Spark."""

__version__ = "0.2.0"
