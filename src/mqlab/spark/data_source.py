"""The format `mqlab` of Spark."""

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from mqlab.spark.options import StreamOptionError, StreamOptions
from mqlab.spark.sink import QueueWriter
from mqlab.spark.source import SOURCE_COLUMNS, QueueReader


class MqlabDataSource(DataSource):
    """Made by Spark, on the driver and in every task."""

    @classmethod
    def name(cls) -> str:
        return "mqlab"

    def schema(self) -> str:
        return SOURCE_COLUMNS

    def streamReader(self, schema: StructType) -> QueueReader:  # noqa: N802 - Spark's name
        del schema
        return QueueReader(StreamOptions.parse(self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> QueueWriter:  # noqa: N802 - Spark's name
        if overwrite:
            raise StreamOptionError("the sink mqlab appends: use the output mode append or update")
        return QueueWriter(StreamOptions.parse(self.options), schema)
