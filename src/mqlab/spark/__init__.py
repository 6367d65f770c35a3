"""The embedded broker as a source and a sink of Spark's Structured Streaming, for programs of users.

`spark.dataSource.register(MqlabDataSource)` adds the format `mqlab`; docs/spark.md tells what it guarantees and which
options it has. The pipeline does not use it.
"""

from mqlab.spark.data_source import MqlabDataSource

__all__ = ["MqlabDataSource"]
