"""Where drivers run."""
