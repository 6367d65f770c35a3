"""The format `mqlab` of Spark against a real broker: whatever dies, each message arrives, and none twice."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from broker.server.raw_client import local
from client.broker_helpers import Served, serving
from mqlab.client import Message, connect
from mqlab.spark import MqlabDataSource
from mqlab.spark.options import StreamOptions
from mqlab.spark.sink import QueueWriter
from mqlab.spark.source import QueueReader

MESSAGES = 2500
DOCUMENT = Path(__file__).parents[2] / "docs" / "spark.md"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(local(data=tmp_path / "data")) as broker:
        yield broker


@pytest.fixture(scope="module")
def streams(spark: SparkSession) -> SparkSession:
    spark.dataSource.register(MqlabDataSource)
    # It makes the session that of this thread, where Spark looks for the format of a sink.
    spark.createDataFrame([], "body BINARY")
    return spark


def send(address: str, queue: str, bodies: list[bytes]) -> None:
    with connect(address) as connection:
        session = connection.session("transacted")
        producer = session.producer(queue)
        for body in bodies:
            producer.send(body, persistent=True)
        session.commit()


def messages_on(address: str, queue: str) -> list[Message]:
    with connect(address) as connection:
        return [*connection.session().browser(queue)]


def queues(address: str) -> dict[str, int]:
    with connect(address) as connection:
        return {line["name"]: line["messages"] for line in connection.ask("list")["destinations"]}


def source(spark: SparkSession, address: str, **options: str) -> DataFrame:
    read = spark.readStream.format("mqlab").option("destination", "queue:orders").option("address", address)
    return read.options(**options).load()


def copy(rows: DataFrame, address: str, checkpoint: Path, sink: str = "mqlab") -> None:
    """Write all messages that are there to queue:copies, and wait for the end of the query."""
    write = rows.writeStream.format(sink).option("destination", "queue:copies").option("address", address)
    query = write.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()


def dying_source(flag: Path, after: int) -> type[MqlabDataSource]:
    """A sink whose Python process is killed once, while it writes. Local classes travel to the tasks as they are."""

    class DyingWriter(QueueWriter):
        def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
            def rows() -> Iterator[Row]:
                for number, row in enumerate(iterator):
                    if number == after and flag.exists():
                        flag.unlink()
                        os.kill(os.getpid(), signal.SIGKILL)
                    yield row

            return super().write(rows())

    class DyingDataSource(MqlabDataSource):
        @classmethod
        def name(cls) -> str:
            return "mqlab-dying"

        def streamWriter(self, schema: StructType, overwrite: bool) -> QueueWriter:  # noqa: ARG002, N802 - Spark's
            return DyingWriter(StreamOptions.parse(self.options), schema)

    return DyingDataSource


def test_messages_keep_their_headers(streams: SparkSession, served: Served, tmp_path: Path) -> None:
    with connect(served.address) as connection:
        connection.session().producer("queue:orders").send(
            b"one", persistent=True, properties={"colour": "red", "size": 7}, correlation_id="c", type="t", group="g",
            reply_to="queue:answers", priority=8,
        )  # fmt: skip
    rows = source(streams, served.address)
    columns = ("body", "correlation_id", "reply_to", "type", "priority", "`group`", "properties")
    copy(rows.select(*columns), served.address, tmp_path / "checkpoint")
    (one,) = messages_on(served.address, "queue:copies")
    assert (one.body, one.correlation_id, one.reply_to, one.type, one.priority, one.group) == (
        b"one", "c", "queue:answers", "t", 8, "g",
    )  # fmt: skip
    assert one.properties == {"colour": "red", "size": "7"}
    assert one.persistent


def test_a_killed_query_goes_on_from_its_checkpoint(streams: SparkSession, served: Served, tmp_path: Path) -> None:
    bodies = [b"%d" % number for number in range(MESSAGES)]
    send(served.address, "queue:orders", bodies)
    flag = tmp_path / "flag"
    flag.touch()
    # One transaction of the sink is committed, and half of the next one is not.
    streams.dataSource.register(dying_source(flag, after=1500))
    rows = source(streams, served.address, max_messages="2000").select("body")
    with pytest.raises(StreamingQueryException):
        copy(rows, served.address, tmp_path / "checkpoint", "mqlab-dying")
    assert not flag.exists()
    written = len(messages_on(served.address, "queue:copies"))
    assert 0 < written < MESSAGES, "the query died in the middle of a batch"
    send(served.address, "queue:orders", [b"later"])
    copy(rows, served.address, tmp_path / "checkpoint", "mqlab-dying")
    assert sorted(message.body for message in messages_on(served.address, "queue:copies")) == sorted(
        [*bodies, b"later"]
    )
    left = [name for name, count in queues(served.address).items() if count and name != "queue:copies"]
    assert len(left) == 1, "Spark commits a batch when the next one begins"
    number = int(left[0].removeprefix("queue:spark.orders."))
    # A new checkpoint reads what the former query had not released.
    reader = QueueReader(StreamOptions.parse({"destination": "queue:orders", "address": served.address}))
    assert reader.initialOffset() == {"batch": number - 1}


def test_a_batch_moved_before_a_crash_is_found_again(served: Served) -> None:
    options = StreamOptions.parse({"destination": "queue:orders", "address": served.address, "max_messages": "5"})
    send(served.address, "queue:orders", [b"%d" % number for number in range(8)])
    first = QueueReader(options)
    start = first.initialOffset()
    end = first.latestOffset(start, first.getDefaultReadLimit())
    first.stop()
    again = QueueReader(options)
    assert again.latestOffset(start, again.getDefaultReadLimit()) == end == {"batch": 1}
    moved = 8 - queues(served.address)["queue:orders"]
    assert 0 < moved < 8
    for _ in range(2):
        (partition,) = again.partitions(start, end)
        assert [row[0] for row in again.read(partition)] == [b"%d" % number for number in range(moved)]
    while (following := again.latestOffset(end, again.getDefaultReadLimit())) != end:
        assert following == {"batch": end["batch"] + 1}
        again.commit(following)
        end = following
    again.stop()
    assert queues(served.address) == {"queue:orders": 0}


def test_a_name_belongs_to_one_query(served: Served) -> None:
    options = StreamOptions.parse({"destination": "queue:orders", "address": served.address})
    first, second = QueueReader(options), QueueReader(options)
    start = first.initialOffset()
    first.latestOffset(start, first.getDefaultReadLimit())
    with pytest.raises(Exception, match=r"spark\.orders"):
        second.latestOffset(start, second.getDefaultReadLimit())
    first.stop()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "destination: write queue:NAME or topic:NAME"),
        ({"destination": "orders"}, "destination: write queue:NAME or topic:NAME"),
        ({"destination": "queue:q", "max_messages": "0"}, "max_messages: '0' is not a positive number"),
        ({"destination": "queue:q", "persistent": "yes"}, "persistent: write true or false, not 'yes'"),
        ({"destination": "queue:q", "host": "there"}, "host: the format mqlab has the options address, ca,"),
    ],
)
def test_wrong_options(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        StreamOptions.parse(options)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("value STRING", "the sink mqlab needs a column body; the rows have value"),
        ("body STRING, colour STRING", "colour: the sink mqlab has the columns body, "),
        ("body INT", "body: the column is int, not binary or string"),
    ],
)
def test_wrong_columns(columns: str, message: str) -> None:
    options = StreamOptions.parse({"destination": "queue:q"})
    schema = StructType.fromDDL(columns)
    assert isinstance(schema, StructType)
    with pytest.raises(ValueError, match=message):
        QueueWriter(options, schema)


def test_the_example_of_the_documentation_runs(streams: SparkSession, served: Served, tmp_path: Path) -> None:
    (snippet, *_) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    send(served.address, "queue:orders", [b"one", b"two"])
    for written, here in (("tcp:127.0.0.1:7766", served.address), ('"checkpoint"', repr(f"{tmp_path}/checkpoint"))):
        assert written in snippet
        snippet = snippet.replace(written, here)
    exec(snippet, {})
    del streams
    assert [message.body for message in messages_on(served.address, "queue:answers")] == [b"ONE", b"TWO"]
