"""Tools for testing applications and window settings offline, without a running service."""
