"""How stages run: kernels, layouts, sinks and what they need, decided before anything starts."""
