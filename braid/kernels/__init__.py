"""Kernels: pure Arrow and NumPy over whole blocks. No Spark, no SQL, no I/O of their own."""
