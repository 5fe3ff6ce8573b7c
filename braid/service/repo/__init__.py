"""A folder in Git that says what should run: how it is read, and what is recorded of it."""
