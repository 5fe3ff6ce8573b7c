"""The process that Spark forks Python workers from, with everything imported that a worker will need.

A worker that imports for itself takes most of a second to start, and an application starts a dozen of them.
Spark imports nothing before it forks because of libraries that start threads. Of those imported here only
Arrow does: one thread of its allocator, which is made for being forked.
"""

from __future__ import annotations

import numpy
import pandas
import pyarrow.compute
import pyspark.worker
from pyspark import daemon

import braid.spark.category
import braid.spark.join
import braid.spark.pace
import braid.spark.table
import braid.spark.writer

PRELOADED = (numpy, pandas, pyarrow.compute, pyspark.worker, braid.spark)


def main() -> None:
    """Fork workers until Spark closes the standard input."""
    daemon.manager()


if __name__ == "__main__":
    main()
