"""Queries that copy messages with the format `mqlab` of Spark, and sinks that something interrupts."""

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from mqlab.client import Message, connect
from mqlab.spark import MqlabDataSource
from mqlab.spark.options import StreamOptions
from mqlab.spark.sink import QueueWriter

MESSAGES = 2500
COPIES = "queue:copies"


def bodies(count: int = MESSAGES, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def send(address: str, destination: str, messages: Iterable[bytes], *, persistent: bool = True) -> None:
    with connect(address) as connection:
        session = connection.session("transacted")
        producer = session.producer(destination)
        for body in messages:
            producer.send(body, persistent=persistent)
        session.commit()


def messages_on(address: str, queue: str) -> list[Message]:
    with connect(address) as connection:
        return [*connection.session().browser(queue)]


def bodies_on(address: str, queue: str) -> list[bytes]:
    return sorted(message.body for message in messages_on(address, queue))


def queues(address: str) -> dict[str, int]:
    with connect(address) as connection:
        return {line["name"]: line["messages"] for line in connection.ask("list")["destinations"]}


def source(spark: SparkSession, address: str, **options: str) -> DataFrame:
    read = spark.readStream.format("mqlab").option("destination", "queue:orders").option("address", address)
    return read.options(**options).load()


def start_copy(
    rows: DataFrame, address: str, checkpoint: Path, sink: str = "mqlab", *, available: bool = False, **options: str
) -> StreamingQuery:
    """Copy messages to queue:copies: those that are available, or also all that come."""
    write = rows.writeStream.format(sink).option("destination", COPIES).option("address", address)
    write = write.option("checkpointLocation", str(checkpoint)).options(**options)
    return (write.trigger(availableNow=True) if available else write).start()


def copy(rows: DataFrame, address: str, checkpoint: Path, sink: str = "mqlab", **options: str) -> None:
    """Copy all messages that are there, and wait for the end of the query."""
    start_copy(rows, address, checkpoint, sink, available=True, **options).awaitTermination()


def interrupted_sink(after: int, interrupt: Callable[[], None]) -> type[MqlabDataSource]:
    """The format `mqlab-interrupted`: its tasks call `interrupt` before the row `after`.

    Local classes and functions travel to the tasks as they are.
    """

    class InterruptedWriter(QueueWriter):
        def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
            def rows() -> Iterator[Row]:
                for number, row in enumerate(iterator):
                    if number == after:
                        interrupt()
                    yield row

            return super().write(rows())

    class InterruptedDataSource(MqlabDataSource):
        @classmethod
        def name(cls) -> str:
            return "mqlab-interrupted"

        def streamWriter(self, schema: StructType, overwrite: bool) -> QueueWriter:  # noqa: ARG002, N802 - Spark's
            return InterruptedWriter(StreamOptions.parse(self.options), schema)

    return InterruptedDataSource


def kill_once(flag: Path) -> Callable[[], None]:
    """Kills the Python process of the task if there is the flag, and removes it."""
    flag.touch()

    def kill() -> None:
        if flag.exists():
            flag.unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    return kill


def stop_until(reached: Path, go_on: Path) -> Callable[[], None]:
    """Says by a file that the task is there, and waits for another file."""

    def stop() -> None:
        reached.touch()
        while not go_on.exists():
            time.sleep(0.01)

    return stop
