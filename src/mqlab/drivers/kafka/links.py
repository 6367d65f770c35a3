"""Links of the Kafka driver: sender and receiver."""

import asyncio
import secrets
from collections.abc import Mapping
from typing import Final

import numpy as np
from confluent_kafka import KafkaError

from mqlab.drivers.api import (
    NOT_TRANSACTED,
    DriverError,
    Matrix,
    MessageHeaders,
    Properties,
    ReceivedBatch,
    Receiver,
    Sender,
    Texts,
)
from mqlab.drivers.common.message_rows import message_rows
from mqlab.drivers.common.timeouts import ANSWER_TIMEOUT_S
from mqlab.drivers.kafka.client import KafkaClient
from mqlab.drivers.kafka.consumer_thread import ConsumerThread, PartitionOffset
from mqlab.drivers.kafka.producer import (
    PARTITION_OF_KEY,
    LibrdkafkaProducer,
    RecordKeys,
    describe_error,
    messages_of,
)

# Unconfirmed messages and KiB of one producer before it waits.
_MAX_UNCONFIRMED: Final = 100_000
_MAX_UNCONFIRMED_KIB: Final = 64 << 10
# How long the library collects messages for a batch, if no role waits for them.
LINGER_MS: Final = 5
_RETRY_INTERVAL_S: Final = 0.002
LACKS: Final[Mapping[str, str]] = {"priority": "Kafka has no priorities", "expiry": "single records do not expire"}
# Error codes of messages that an aborted transaction has purged.
_PURGED: Final = {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}


class KafkaProducer:
    """A producer of the C library, with asynchronous methods and checks for delivery errors."""

    def __init__(self, client: KafkaClient, *, linger_ms: int, transacted: bool) -> None:
        self._client = client
        self._transacted = transacted
        transaction: Mapping[str, object] = {"transactional.id": f"mqlab-{secrets.token_hex(8)}"} if transacted else {}
        self.library = LibrdkafkaProducer({
            **client.settings, "acks": "all", "enable.idempotence": "true", "linger.ms": linger_ms,
            "batch.size": 1 << 20, "batch.num.messages": _MAX_UNCONFIRMED,
            "queue.buffering.max.messages": _MAX_UNCONFIRMED, "queue.buffering.max.kbytes": _MAX_UNCONFIRMED_KIB,
            "message.max.bytes": 64 << 20, "delivery.timeout.ms": int(ANSWER_TIMEOUT_S * 1000), **transaction,
        })  # fmt: skip

    async def open(self, topic: str) -> None:
        """Connect now, so that the first message does not have to wait for it."""
        if self._transacted:
            await self._client.run_blocking(self.library.init_transactions, ANSWER_TIMEOUT_S)
        await self._client.run_blocking(self.library.wait_topic, topic, ANSWER_TIMEOUT_S)

    async def send(self, topic: str, bodies: Matrix, partition: int, keys: Texts | None = None) -> None:
        """Return when the library has queued all messages."""
        bodies = np.ascontiguousarray(bodies)
        messages = messages_of(bodies)
        if keys is not None:
            record_keys = RecordKeys(keys)
            record_keys.add_to(messages)
        while len(messages := messages[self.library.send(topic, messages, partition) :]):
            await self._wait_writable()
        self.check()
        await asyncio.sleep(0)

    async def send_one(self, topic: str, body: bytes, key: bytes, partition: int) -> None:
        while not self.library.send_one(topic, body, key, partition):
            await self._wait_writable()
        self.check()

    async def send_with_headers(
        self, topic: str, bodies: Matrix, partition: int, properties: Properties, headers: MessageHeaders | None
    ) -> None:
        """The same for messages that have properties, which are sent as text."""
        for body, row in zip(bodies, message_rows(len(bodies), properties, headers), strict=True):
            values = {name: str(value).encode() for name, value in row.properties.items()}
            key = None if row.key is None else row.key.encode()
            while not self.library.send_with_headers(topic, body.tobytes(), key, partition, values):
                await self._wait_writable()
        self.check()
        await asyncio.sleep(0)

    async def flush(self) -> None:
        """Return when all messages are confirmed."""
        left = await self._client.run_blocking(self.library.flush, ANSWER_TIMEOUT_S)
        self.check()
        if left:
            raise DriverError(f"Kafka has not confirmed {left} messages within {ANSWER_TIMEOUT_S:g} s")

    def check(self) -> None:
        """Raise DriverError if any message or the connection has failed so far."""
        failed = self.library.delivery_errors - _PURGED
        if failed:
            raise DriverError(f"Kafka did not accept a message: {describe_error(min(failed))}")
        if self.library.failures:
            raise DriverError(f"the Kafka broker is unreachable: {self.library.failures[0]}")

    async def close(self) -> None:
        """Drop unconfirmed messages."""
        self.library.purge()
        await self._client.run_blocking(self.library.flush, 1.0)

    async def _wait_writable(self) -> None:
        """Wait a little for space in the library's queue. `check` ends such waits: messages time out in the library."""
        self.check()
        await asyncio.sleep(_RETRY_INTERVAL_S)


class KafkaSender(Sender):
    """Sends all messages to one partition, so that they keep their order; those with keys to the one of their key."""

    def __init__(
        self, client: KafkaClient, producer: KafkaProducer, topic: str, partition: int, *, transacted: bool
    ) -> None:
        self._client = client
        self._producer = producer
        self._topic = topic
        self._partition = partition
        self._transacted = transacted
        self._in_transaction = False

    async def send(
        self, bodies: Matrix, *, wait: bool, properties: Properties | None = None, headers: MessageHeaders | None = None
    ) -> None:
        if self._transacted and not self._in_transaction:
            await self._client.run_blocking(self._producer.library.begin_transaction)
            self._in_transaction = True
        if properties is None and headers is None:
            await self._producer.send(self._topic, bodies, self._partition)
        else:
            await self._send_with_columns(bodies, properties, headers)
        if wait:
            await self._producer.flush()

    async def _send_with_columns(
        self, bodies: Matrix, properties: Properties | None, headers: MessageHeaders | None
    ) -> None:
        keys, partition = None, self._partition
        if headers is not None:
            headers.check(LACKS)
            keys = headers.key
        if keys is not None:
            partition = PARTITION_OF_KEY
        if properties is None:
            await self._producer.send(self._topic, bodies, partition, keys)
        else:
            await self._producer.send_with_headers(self._topic, bodies, partition, properties, headers)

    async def commit(self) -> None:
        if not self._transacted:
            raise DriverError(NOT_TRANSACTED)
        if self._in_transaction:
            await self._client.run_blocking(self._producer.library.commit_transaction, ANSWER_TIMEOUT_S)
            self._in_transaction = False
            self._producer.check()

    async def close(self) -> None:
        """Roll back an open transaction; wait for the confirmations of all other messages."""
        if self._in_transaction:
            self._in_transaction = False
            await self._client.run_blocking(self._producer.library.abort_transaction, ANSWER_TIMEOUT_S)
        await self._producer.flush()


class KafkaReceiver(Receiver):
    """`commits`: the consumer group commits acknowledged offsets."""

    def __init__(self, consumer: ConsumerThread, *, commits: bool, transacted: bool) -> None:
        self._consumer = consumer
        self._commits = commits
        self._transacted = transacted
        self._unacknowledged: dict[int, PartitionOffset] = {}

    async def receive(self) -> ReceivedBatch:
        if self._commits and not self._transacted and self._unacknowledged:
            done, self._unacknowledged = self._unacknowledged, {}
            self._consumer.acknowledge([*done.values()])
        bodies, tags, redelivered = await self._consumer.inbox.take()
        self._unacknowledged |= {tag.partition: tag for tag in tags}
        return ReceivedBatch(bodies, redelivered)

    async def commit(self) -> None:
        if not self._transacted:
            raise DriverError(NOT_TRANSACTED)
        done, self._unacknowledged = self._unacknowledged, {}
        if done and self._commits:
            await self._consumer.commit([*done.values()])

    async def close(self) -> None:
        await self._consumer.close()
