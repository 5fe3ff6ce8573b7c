"""The service: an HTTP API, a registry of what should run, and loops that see to it.

Nothing is imported here: drivers are processes of this package, too, and begin by saying that they are there.
"""
