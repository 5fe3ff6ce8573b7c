"""The home of applications: its paths, and the typed records of a run."""
