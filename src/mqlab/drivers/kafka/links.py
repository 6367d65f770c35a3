"""What a role holds of Kafka: the sending and receiving ends."""

import asyncio
import secrets
from collections.abc import Mapping
from typing import Final

import numpy as np
from confluent_kafka import KafkaError

from mqlab.drivers.api import DriverError, Matrix, Properties, ReceivedBatch, Receiver, Sender
from mqlab.drivers.common.timeouts import ANSWER_TIMEOUT_S
from mqlab.drivers.kafka.client import Cluster
from mqlab.drivers.kafka.consumer_thread import Mark, Pump
from mqlab.drivers.kafka.producer import Producer, messages_of, words

# Messages and bytes that one producer has under way before it waits.
_MOST_UNCONFIRMED: Final = 100_000
_MOST_UNCONFIRMED_KIB: Final = 64 << 10
# How long messages are gathered when nobody waits for them; who waits says so, and nothing is gathered then.
LINGER_MILLISECONDS: Final = 5
_WAIT_SECONDS: Final = 0.002
# Of messages that were never to be sent: the transaction was aborted.
_GIVEN_UP: Final = {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}


class Sending:
    """A producer of the library, and what became of what it was given."""

    def __init__(self, cluster: Cluster, *, linger: int, transacted: bool) -> None:
        self._cluster = cluster
        self._transacted = transacted
        more: Mapping[str, object] = {"transactional.id": f"mqlab-{secrets.token_hex(8)}"} if transacted else {}
        self.producer = Producer({
            **cluster.settings, "acks": "all", "enable.idempotence": "true", "linger.ms": linger, "batch.size": 1 << 20,
            "batch.num.messages": _MOST_UNCONFIRMED, "queue.buffering.max.messages": _MOST_UNCONFIRMED,
            "queue.buffering.max.kbytes": _MOST_UNCONFIRMED_KIB, "message.max.bytes": 64 << 20,
            "delivery.timeout.ms": int(ANSWER_TIMEOUT_S * 1000), **more,
        })  # fmt: skip

    async def open(self, topic: str) -> None:
        """Returns when it is connected: the first message need not wait for that."""
        if self._transacted:
            await self._cluster.wait(self.producer.init_transactions, ANSWER_TIMEOUT_S)
        await self._cluster.wait(self.producer.find, topic, ANSWER_TIMEOUT_S)

    async def send(self, topic: str, bodies: Matrix, partition: int) -> None:
        """Returns when they are in the hands of the library."""
        bodies = np.ascontiguousarray(bodies)
        messages = messages_of(bodies)
        while len(messages := messages[self.producer.send(topic, messages, partition) :]):
            await self._room()
        self.check()
        await asyncio.sleep(0)

    async def send_one(self, topic: str, body: bytes, key: bytes, partition: int) -> None:
        while not self.producer.send_one(topic, body, key, partition):
            await self._room()
        self.check()

    async def flushed(self) -> None:
        """Everything is confirmed."""
        left = await self._cluster.wait(self.producer.flush, ANSWER_TIMEOUT_S)
        self.check()
        if left:
            raise DriverError(f"Kafka has not confirmed {left} messages within {ANSWER_TIMEOUT_S:g} s")

    def check(self) -> None:
        """Raises DriverError if anything failed, now or before."""
        failed = self.producer.not_taken - _GIVEN_UP
        if failed:
            raise DriverError(f"Kafka did not take a message: {words(min(failed))}")
        if self.producer.gone:
            raise DriverError(f"the Kafka broker is gone: {self.producer.gone[0]}")

    async def close(self) -> None:
        """What is under way is given up."""
        self.producer.purge()
        await self._cluster.wait(self.producer.flush, 1.0)

    async def _room(self) -> None:
        """There may be some now. That has an end: the library gives up what is not taken in time, and says so."""
        self.check()
        await asyncio.sleep(_WAIT_SECONDS)


class KafkaSender(Sender):
    """All messages of one sender go to one partition, so that they keep their order."""

    def __init__(self, cluster: Cluster, sending: Sending, topic: str, partition: int, *, transacted: bool) -> None:
        self._cluster = cluster
        self._sending = sending
        self._topic = topic
        self._partition = partition
        self._transacted = transacted
        self._in_transaction = False

    async def send(self, bodies: Matrix, *, wait: bool, properties: Properties | None = None) -> None:
        if properties is not None:
            raise DriverError("Kafka cannot choose messages by their properties")
        if self._transacted and not self._in_transaction:
            await self._cluster.wait(self._sending.producer.begin_transaction)
            self._in_transaction = True
        await self._sending.send(self._topic, bodies, self._partition)
        if wait:
            await self._sending.flushed()

    async def commit(self) -> None:
        if not self._transacted:
            raise DriverError("the session is not transacted")
        if self._in_transaction:
            await self._cluster.wait(self._sending.producer.commit_transaction, ANSWER_TIMEOUT_S)
            self._in_transaction = False
            self._sending.check()

    async def close(self) -> None:
        """What was not committed is not sent."""
        if self._in_transaction:
            self._in_transaction = False
            await self._cluster.wait(self._sending.producer.abort_transaction, ANSWER_TIMEOUT_S)
        await self._sending.flushed()


class KafkaReceiver(Receiver):
    """`commits`: the group of it is told what was acknowledged."""

    def __init__(self, pump: Pump, *, commits: bool, transacted: bool) -> None:
        self._pump = pump
        self._commits = commits
        self._transacted = transacted
        self._unfinished: dict[int, Mark] = {}

    async def receive(self) -> ReceivedBatch:
        if self._commits and not self._transacted and self._unfinished:
            done, self._unfinished = self._unfinished, {}
            self._pump.acknowledge([*done.values()])
        bodies, marks, redelivered = await self._pump.inbox.take()
        self._unfinished |= {mark.partition: mark for mark in marks}
        return ReceivedBatch(bodies, redelivered)

    async def commit(self) -> None:
        if not self._transacted:
            raise DriverError("the session is not transacted")
        done, self._unfinished = self._unfinished, {}
        if done and self._commits:
            await self._pump.finish([*done.values()])

    async def close(self) -> None:
        await self._pump.close()
