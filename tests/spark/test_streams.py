"""The format `mqlab` of Spark against a real broker: headers, batches that can be read again, options and columns."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from client.broker_helpers import Served
from mqlab.client import connect
from mqlab.spark.options import StreamOptions
from mqlab.spark.sink import QueueWriter
from mqlab.spark.source import QueueReader
from spark.stream_helpers import copy, messages_on, queues, send, source

DOCUMENT = Path(__file__).parents[2] / "docs" / "spark.md"


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


def test_a_batch_moved_before_a_crash_is_not_of_those_that_are_there(served: Served) -> None:
    """A query that reads what is there at its start reads all of it, and the batch of the former query."""
    options = StreamOptions.parse({"destination": "queue:orders", "address": served.address})
    send(served.address, "queue:orders", [b"moved"] * 8)
    first = QueueReader(options)
    start = first.initialOffset()
    first.latestOffset(start, first.getDefaultReadLimit())
    first.stop()
    send(served.address, "queue:orders", [b"there"] * 8)
    again = QueueReader(options)
    again.prepareForTriggerAvailableNow()
    end = start
    while (following := again.latestOffset(end, again.getDefaultReadLimit())) != end:
        end = following
    again.stop()
    assert queues(served.address)["queue:orders"] == 0


def test_messages_of_a_batch_do_not_expire(served: Served) -> None:
    """Each reading of a batch has the same rows, by whose numbers the sink recognises them."""
    with connect(served.address) as connection:
        producer = connection.session().producer("queue:orders")
        producer.send(b"one", persistent=True, time_to_live=3_600_000, duplicate_id="1", group="g")
        producer.send(b"two", persistent=True)
    reader = QueueReader(StreamOptions.parse({"destination": "queue:orders", "address": served.address}))
    end = reader.latestOffset({"batch": 0}, reader.getDefaultReadLimit())
    reader.stop()
    moved = messages_on(served.address, f"queue:spark.orders.{end['batch']}")
    assert [(message.body, message.expiration, message.group) for message in moved] == [
        (b"one", 0, "g"), (b"two", 0, None),
    ]  # fmt: skip
    assert all(message.id for message in moved)


def test_a_batch_that_the_broker_lost(served: Served) -> None:
    """Its messages were not persistent, and the broker was started anew: the query goes on without them."""
    reader = QueueReader(StreamOptions.parse({"destination": "queue:orders", "address": served.address}))
    (partition,) = reader.partitions({"batch": 0}, {"batch": 1})
    assert [*reader.read(partition)] == []
    send(served.address, "queue:orders", [b"next"])
    assert reader.latestOffset({"batch": 1}, reader.getDefaultReadLimit()) == {"batch": 2}
    reader.commit({"batch": 2})
    reader.stop()
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
