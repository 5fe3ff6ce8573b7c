"""HTTP endpoints, a file for each resource. No logic is in them."""
