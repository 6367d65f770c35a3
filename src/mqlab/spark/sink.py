"""The sink: rows become messages, and a batch that Spark writes again adds none.

Each message has a duplicate id: the query, the batch, the partition and the row. The broker discards a message whose id
it has already (`duplicate_window` of its destination). A column `duplicate_id` replaces these ids.
"""

from collections.abc import Iterator
from typing import Final

from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, DataType, IntegerType, MapType, StringType, StructType

from mqlab.spark.options import StreamOptionError, StreamOptions

_TEXT: Final = StringType()
_BODY: Final = "body"
_PROPERTIES: Final = "properties"
_DUPLICATE_ID: Final = "duplicate_id"
SINK_COLUMNS: Final[dict[str, tuple[DataType, ...]]] = {
    _BODY: (BinaryType(), _TEXT), "correlation_id": (_TEXT,), "reply_to": (_TEXT,), "type": (_TEXT,),
    "priority": (IntegerType(),), "group": (_TEXT,), _DUPLICATE_ID: (_TEXT,), _PROPERTIES: (MapType(_TEXT, _TEXT),),
}  # fmt: skip
# Rows in a transaction of the broker, which bounds their number.
_TRANSACTION: Final = 1000
# The properties that Spark gives the tasks of a streaming query.
_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"


class QueueWriter(DataSourceStreamWriter):
    """Made by Spark in every task, and on the driver."""

    def __init__(self, options: StreamOptions, schema: StructType) -> None:
        _check_columns(schema)
        self._options = options

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        task = TaskContext.get()
        assert task is not None, "Spark writes in tasks"
        prefix = f"{task.getLocalProperty(_QUERY)}-{task.getLocalProperty(_BATCH)}-{task.partitionId()}"
        with self._options.connect() as connection:
            session = connection.session("transacted")
            producer = session.producer(self._options.destination)
            for number, row in enumerate(iterator):
                headers = {name: value for name, value in row.asDict().items() if value is not None}
                body, properties = headers.pop(_BODY, b""), headers.pop(_PROPERTIES, None)
                producer.send(
                    body.encode() if isinstance(body, str) else bytes(body), persistent=self._options.persistent,
                    properties=properties, **{_DUPLICATE_ID: f"{prefix}-{number}", **headers},
                )  # fmt: skip
                if number % _TRANSACTION == _TRANSACTION - 1:
                    session.commit()
            session.commit()
        return WriterCommitMessage()


def _check_columns(schema: StructType) -> None:
    """Raises StreamOptionError."""
    if _BODY not in schema.names:
        raise StreamOptionError(f"the sink mqlab needs a column {_BODY}; the rows have {', '.join(schema.names)}")
    for field in schema:
        allowed = SINK_COLUMNS.get(field.name)
        if allowed is None:
            raise StreamOptionError(f"{field.name}: the sink mqlab has the columns {', '.join(SINK_COLUMNS)}")
        if not any(isinstance(field.dataType, type(kind)) for kind in allowed):
            names = " or ".join(kind.simpleString() for kind in allowed)
            raise StreamOptionError(f"{field.name}: the column is {field.dataType.simpleString()}, not {names}")
