"""The planner: a typed query to frozen stages."""
