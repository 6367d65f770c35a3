"""What a role holds of Kafka: the sending and receiving ends."""

import asyncio
import secrets
from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from mqlab.drivers.base import Arrival, DriverError, Matrix, Properties, Receiver, Sender
from mqlab.drivers.kafka_client import ANSWER_SECONDS, Cluster
from mqlab.drivers.kafka_pump import Mark, Pump

# Messages and bytes that one producer has under way before it waits.
_MOST_UNCONFIRMED: Final = 100_000
_MOST_UNCONFIRMED_KIB: Final = 64 << 10
# How long messages are gathered when nobody waits for them; who waits says so, and nothing is gathered then.
LINGER_MILLISECONDS: Final = 5
_WAIT_SECONDS: Final = 0.002
# Of messages that were never to be sent: the transaction was aborted.
_GIVEN_UP: Final = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)


class Sending:
    """A producer of the library. What it is told of is written in threads of the library; failures come back here."""

    def __init__(self, cluster: Cluster, *, linger: int, transacted: bool) -> None:
        self._cluster = cluster
        self._transacted = transacted
        self._why = ""
        # The first message of each fate. The library tells of those only that were not taken: to make an object of
        # every message that was would cost as much as to send it.
        self._fates: dict[KafkaError, Message] = {}
        self._told = self._fates.setdefault
        more: Mapping[str, object] = {"transactional.id": f"mqlab-{secrets.token_hex(8)}"} if transacted else {}
        self.producer = Producer(cluster.settings({
            "acks": "all", "enable.idempotence": True, "linger.ms": linger, "batch.size": 1 << 20,
            "batch.num.messages": 10_000, "queue.buffering.max.messages": _MOST_UNCONFIRMED,
            "queue.buffering.max.kbytes": _MOST_UNCONFIRMED_KIB, "message.max.bytes": 64 << 20,
            "delivery.timeout.ms": int(ANSWER_SECONDS * 1000), "delivery.report.only.error": True, **more,
        }, self._fail))  # fmt: skip

    async def open(self, topic: str) -> None:
        """Returns when it is connected: the first message need not wait for that."""
        if self._transacted:
            await self._cluster.wait(self.producer.init_transactions, ANSWER_SECONDS)
        await self._cluster.wait(self.producer.list_topics, topic, timeout=ANSWER_SECONDS)

    async def send(self, topic: str, values: list[bytes], partition: int) -> None:
        """Returns when they are in the hands of the library."""
        messages = [{"value": value} for value in values]
        while messages:
            try:
                taken = self.producer.produce_batch(topic, messages, partition=partition, on_delivery=self._told)
            except KafkaException as error:
                raise DriverError(f"Kafka: {error.args[0].str()}") from error
            refused = messages[0].get("_error") if taken == 0 else None
            messages = [message for message in messages if "_error" in message] if taken < len(messages) else []
            await self._breathe(full=bool(messages), refused=refused)
            for message in messages:
                del message["_error"]

    async def send_one(self, topic: str, value: bytes, key: bytes, partition: int) -> None:
        while True:
            try:
                self.producer.produce(topic, value, key, partition, on_delivery=self._told)
                break
            except BufferError:
                await asyncio.sleep(_WAIT_SECONDS)
                self.producer.poll(0)
        self.check()

    async def flushed(self) -> None:
        """Everything is confirmed."""
        left = await self._cluster.wait(self.producer.flush, ANSWER_SECONDS)
        self.check()
        if left:
            raise DriverError(f"Kafka has not confirmed {left} messages within {ANSWER_SECONDS:g} s")

    def check(self) -> None:
        self.producer.poll(0)
        failed = next((fate for fate in self._fates if fate.code() not in _GIVEN_UP), None)
        if failed is not None:
            self._fail(f"Kafka did not take a message: {failed.str()}")
        if self._why:
            raise DriverError(self._why)

    async def close(self) -> None:
        """What is under way is given up."""
        self.producer.purge()
        await self._cluster.wait(self.producer.flush, 1.0)

    async def _breathe(self, *, full: bool, refused: object) -> None:
        if refused is not None and not (isinstance(refused, KafkaError) and refused.code() == KafkaError._QUEUE_FULL):
            raise DriverError(f"Kafka refused a message: {refused}")
        self.check()
        await asyncio.sleep(_WAIT_SECONDS if full else 0)

    def _fail(self, why: str) -> None:
        self._why = self._why or why


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
        data, size = bodies.tobytes(), bodies.shape[1]
        values = [data[begin : begin + size] for begin in range(0, len(data), size)]
        await self._sending.send(self._topic, values, self._partition)
        if wait:
            await self._sending.flushed()

    async def commit(self) -> None:
        if not self._transacted:
            raise DriverError("the session is not transacted")
        if self._in_transaction:
            await self._cluster.wait(self._sending.producer.commit_transaction, ANSWER_SECONDS)
            self._in_transaction = False
            self._sending.check()

    async def close(self) -> None:
        """What was not committed is not sent."""
        if self._in_transaction:
            self._in_transaction = False
            await self._cluster.wait(self._sending.producer.abort_transaction, ANSWER_SECONDS)
        await self._sending.flushed()


class KafkaReceiver(Receiver):
    """`commits`: the group of it is told what was acknowledged."""

    def __init__(self, pump: Pump, *, commits: bool, transacted: bool) -> None:
        self._pump = pump
        self._commits = commits
        self._transacted = transacted
        self._unfinished: dict[int, Mark] = {}

    async def receive(self) -> Arrival:
        if self._commits and not self._transacted and self._unfinished:
            done, self._unfinished = self._unfinished, {}
            self._pump.acknowledge([*done.values()])
        bodies, marks, redelivered = await self._pump.inbox.take()
        self._unfinished |= {mark.partition: mark for mark in marks}
        return Arrival(bodies, redelivered)

    async def commit(self) -> None:
        if not self._transacted:
            raise DriverError("the session is not transacted")
        done, self._unfinished = self._unfinished, {}
        if done and self._commits:
            await self._pump.finish([*done.values()])

    async def close(self) -> None:
        await self._pump.close()
