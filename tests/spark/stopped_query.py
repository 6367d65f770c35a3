"""A query in a process of its own, which stops in the middle of a batch until it is killed.

stopped_query.py ADDRESS CHECKPOINT FILE: the file says that the query has stopped.
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from mqlab.spark import MqlabDataSource
from spark.stream_helpers import copy, interrupted_sink, source, stop_until

if __name__ == "__main__":
    address, checkpoint, reached = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    session.dataSource.register(MqlabDataSource)
    # One transaction of the sink is committed, and half of the next one is not.
    session.dataSource.register(interrupted_sink(1500, stop_until(reached, checkpoint / "never")))
    copy(source(session, address, max_messages="2000").select("body"), address, checkpoint, "mqlab-interrupted")
