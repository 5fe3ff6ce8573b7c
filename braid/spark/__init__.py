"""The engine on Spark: the only part of Braid that imports pyspark."""
