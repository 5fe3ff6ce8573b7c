"""What runs, without Spark: admission, steps, counters, notes, dead letters and output watermarks."""
