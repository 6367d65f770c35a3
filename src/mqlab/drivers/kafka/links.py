"""What a role holds of Kafka: the sending and receiving ends."""

import asyncio
import secrets
from collections.abc import Mapping
from typing import Final

import numpy as np
from confluent_kafka import KafkaError

from mqlab.drivers.api import DriverError, Matrix, Properties, ReceivedBatch, Receiver, Sender
from mqlab.drivers.common.timeouts import ANSWER_TIMEOUT_S
from mqlab.drivers.kafka.client import KafkaClient
from mqlab.drivers.kafka.consumer_thread import ConsumerThread, PartitionOffset
from mqlab.drivers.kafka.producer import LibrdkafkaProducer, describe_error, messages_of

# Messages and bytes that one producer has under way before it waits.
_MAX_UNCONFIRMED: Final = 100_000
_MAX_UNCONFIRMED_KIB: Final = 64 << 10
# How long messages are gathered when nobody waits for them; who waits says so, and nothing is gathered then.
LINGER_MS: Final = 5
_RETRY_INTERVAL_S: Final = 0.002
# Of messages that were never to be sent: the transaction was aborted.
_PURGED: Final = {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}


class KafkaProducer:
    """A producer of the library, and what became of what it was given."""

    def __init__(self, client: KafkaClient, *, linger_ms: int, transacted: bool) -> None:
        self._client = client
        self._transacted = transacted
        more: Mapping[str, object] = {"transactional.id": f"mqlab-{secrets.token_hex(8)}"} if transacted else {}
        self.library = LibrdkafkaProducer({
            **client.settings, "acks": "all", "enable.idempotence": "true", "linger.ms": linger_ms,
            "batch.size": 1 << 20, "batch.num.messages": _MAX_UNCONFIRMED,
            "queue.buffering.max.messages": _MAX_UNCONFIRMED, "queue.buffering.max.kbytes": _MAX_UNCONFIRMED_KIB,
            "message.max.bytes": 64 << 20, "delivery.timeout.ms": int(ANSWER_TIMEOUT_S * 1000), **more,
        })  # fmt: skip

    async def open(self, topic: str) -> None:
        """Returns when it is connected: the first message need not wait for that."""
        if self._transacted:
            await self._client.run_blocking(self.library.init_transactions, ANSWER_TIMEOUT_S)
        await self._client.run_blocking(self.library.wait_topic, topic, ANSWER_TIMEOUT_S)

    async def send(self, topic: str, bodies: Matrix, partition: int) -> None:
        """Returns when they are in the hands of the library."""
        bodies = np.ascontiguousarray(bodies)
        messages = messages_of(bodies)
        while len(messages := messages[self.library.send(topic, messages, partition) :]):
            await self._wait_writable()
        self.check()
        await asyncio.sleep(0)

    async def send_one(self, topic: str, body: bytes, key: bytes, partition: int) -> None:
        while not self.library.send_one(topic, body, key, partition):
            await self._wait_writable()
        self.check()

    async def flush(self) -> None:
        """Everything is confirmed."""
        left = await self._client.run_blocking(self.library.flush, ANSWER_TIMEOUT_S)
        self.check()
        if left:
            raise DriverError(f"Kafka has not confirmed {left} messages within {ANSWER_TIMEOUT_S:g} s")

    def check(self) -> None:
        """Raises DriverError if anything failed, now or before."""
        failed = self.library.delivery_errors - _PURGED
        if failed:
            raise DriverError(f"Kafka did not take a message: {describe_error(min(failed))}")
        if self.library.failures:
            raise DriverError(f"the Kafka broker is gone: {self.library.failures[0]}")

    async def close(self) -> None:
        """What is under way is given up."""
        self.library.purge()
        await self._client.run_blocking(self.library.flush, 1.0)

    async def _wait_writable(self) -> None:
        """There may be some now. That has an end: the library gives up what is not taken in time, and says so."""
        self.check()
        await asyncio.sleep(_RETRY_INTERVAL_S)


class KafkaSender(Sender):
    """All messages of one sender go to one partition, so that they keep their order."""

    def __init__(
        self, client: KafkaClient, producer: KafkaProducer, topic: str, partition: int, *, transacted: bool
    ) -> None:
        self._client = client
        self._producer = producer
        self._topic = topic
        self._partition = partition
        self._transacted = transacted
        self._in_transaction = False

    async def send(self, bodies: Matrix, *, wait: bool, properties: Properties | None = None) -> None:
        if properties is not None:
            raise DriverError("Kafka cannot choose messages by their properties")
        if self._transacted and not self._in_transaction:
            await self._client.run_blocking(self._producer.library.begin_transaction)
            self._in_transaction = True
        await self._producer.send(self._topic, bodies, self._partition)
        if wait:
            await self._producer.flush()

    async def commit(self) -> None:
        if not self._transacted:
            raise DriverError("the session is not transacted")
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
    """`commits`: the group of it is told what was acknowledged."""

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
            raise DriverError("the session is not transacted")
        done, self._unacknowledged = self._unacknowledged, {}
        if done and self._commits:
            await self._consumer.commit([*done.values()])

    async def close(self) -> None:
        await self._consumer.close()
