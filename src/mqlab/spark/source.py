"""The source: batches of messages that can be read again until Spark has committed them.

A queue gives each message once, and Spark must be able to read a batch again after a failure. So the reader moves the
messages of a batch to a queue of their own, in one transaction of the broker, and the offset is the number of that
queue. Tasks browse it, as often as they must; when Spark commits the offset, the reader deletes it.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from mqlab.client import Connection, Consumer, Message, MessagingError, RefusedError, Session
from mqlab.client.aio import DEFAULT_PREFETCH
from mqlab.spark.options import StreamOptions
from mqlab.wire.native.columns import column_names, decode_batch, encode_columns
from mqlab.wire.native.payload import Payload

SOURCE_COLUMNS: Final = (
    "body BINARY, id STRING, timestamp TIMESTAMP, correlation_id STRING, reply_to STRING, type STRING, priority INT, "
    "`group` STRING, persistent BOOLEAN, properties MAP<STRING, STRING>"
)
Offset = dict[str, int]
SourceRow = tuple[
    bytes, str | None, datetime | None, str | None, str | None, str | None, int, str | None, bool, dict[str, str]
]

_BATCH: Final = "batch"
# How long the reader waits for the first message of a batch, and for more.
_FIRST_S: Final = 0.2
_MORE_S: Final = 0.01
# A batch is one transaction: the broker bounds its bytes.
_MAX_BYTES: Final = 4 << 20
# Headers by which the broker removes or holds back messages. Those of a batch stay what they are until it is deleted:
# a message that expired between two readings would give every row behind it another number.
_OF_THE_DESTINATION: Final = frozenset(("expiration", "deliver_at", "duplicate_id"))


class QueueReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One object in a process of its own moves messages, others in tasks read partitions."""

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._mover: BatchMover | None = None
        # Messages that are still to be read: Spark asked for those that were there at the start.
        self._left: int | None = None

    def __getstate__(self) -> dict[str, object]:
        """Without the connection: Spark sends this object to tasks."""
        return {**self.__dict__, "_mover": None}

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Before the oldest batch that a former query of this name left behind."""
        with self._options.connect() as connection:
            numbers = _batch_numbers(connection, self._options)
        return {_BATCH: min(numbers, default=1) - 1}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        if self._options.is_queue:
            with self._options.connect() as connection:
                self._left = _messages_on(connection, self._options.destination) or 0

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        del limit
        number = start[_BATCH] + 1
        most = self._options.max_messages if self._left is None else min(self._options.max_messages, self._left)
        if self._mover is None:
            self._mover = BatchMover(self._options)
        queue = batch_queue(self._options, number)
        try:
            # A query that was killed may have moved the batch, and not noted it.
            if _messages_on(self._mover.connection, queue):
                return {_BATCH: number}
            moved = self._mover.move(queue, most)
        except (MessagingError, OSError):
            # The next query begins with a new connection, and finds out whether the batch was committed.
            self.stop()
            raise
        if self._left is not None:
            self._left = max(0, self._left - moved)
        return {_BATCH: number} if moved else start

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(start[_BATCH] + 1, end[_BATCH] + 1)]

    def read(self, partition: InputPartition) -> Iterator[SourceRow]:
        with self._options.connect() as connection:
            yield from map(_row, connection.session().browser(batch_queue(self._options, partition.value)))

    def commit(self, end: Offset) -> None:
        """The batch before is deleted as well: a query that was killed may not have come to it."""
        with self._options.connect() as connection:
            for number in (end[_BATCH] - 1, end[_BATCH]):
                with suppress(RefusedError):
                    connection.ask("delete", name=batch_queue(self._options, number))

    def stop(self) -> None:
        if self._mover is not None:
            self._mover.close()
            self._mover = None


class BatchMover:
    """Moves messages from the destination to queues. The broker has one at a time for each name of a source."""

    def __init__(self, options: StreamOptions) -> None:
        self.connection = options.connect(client_id=f"spark.{options.name}")
        self._session: Session = self.connection.session("transacted")
        durable = "" if options.is_queue else options.name
        self._consumer: Consumer = self._session.consumer(
            options.destination, durable=durable, prefetch=min(DEFAULT_PREFETCH, options.max_messages)
        )

    def move(self, queue: str, most: int) -> int:
        """Move up to `most` messages, and the rest of the last delivery. Returns their number."""
        producer, rows, size, wait = None, 0, 0, _FIRST_S
        with suppress(TimeoutError):
            while rows < most and size < _MAX_BYTES:
                delivery = self._consumer.receive_batch(wait)
                producer = producer or self._session.producer(queue)
                producer.send_batch(_kept_as_it_is(delivery.payload), persistent=delivery.persistent)
                rows, size, wait = rows + delivery.rows, size + len(delivery.payload.data), _MORE_S
        if producer is not None:
            self._session.commit()
            producer.close()
        return rows

    def close(self) -> None:
        with suppress(MessagingError, OSError):
            self.connection.close()


def _kept_as_it_is(payload: Payload) -> Payload:
    if _OF_THE_DESTINATION.isdisjoint(column_names(payload)):
        return payload
    bodies, *columns = decode_batch(payload).columns
    names = column_names(payload)
    kept = {name: column for name, column in zip(names, columns, strict=True) if name not in _OF_THE_DESTINATION}
    return encode_columns(bodies, kept)


def batch_queue(options: StreamOptions, number: int) -> str:
    return f"{_prefix(options)}{number}"


def _prefix(options: StreamOptions) -> str:
    return f"queue:spark.{options.name}."


def _batch_numbers(connection: Connection, options: StreamOptions) -> list[int]:
    numbers: list[int] = []
    after: int | None = 0
    while after is not None:
        page = connection.ask("list", after=after)
        names = (line["name"].removeprefix(_prefix(options)) for line in page["destinations"] if line["messages"])
        numbers += [int(name) for name in names if name.isdecimal()]
        after = page.get("more")
    return numbers


def _messages_on(connection: Connection, queue: str) -> int | None:
    """None if there is no such queue."""
    try:
        return int(connection.ask("show", name=queue)["messages"])
    except RefusedError:
        return None


def _row(message: Message) -> SourceRow:
    sent = None if message.timestamp is None else datetime.fromtimestamp(message.timestamp / 1000, UTC)
    texts = {name: str(value) for name, value in message.properties.items()}
    return (
        message.body, message.id, sent, message.correlation_id, message.reply_to, message.type, message.priority,
        message.group, message.persistent, texts,
    )  # fmt: skip
