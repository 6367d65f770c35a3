"""Apache Kafka, through its C client.

A destination is a topic of Kafka. One that is a topic of the lab has one partition, which every subscriber reads for
itself. A queue has several, which its consumers share as one group: each sender keeps to one of them, so that its
messages stay in order, and no more consumers than partitions get any.
"""

import asyncio
from collections.abc import Mapping
from itertools import count
from types import MappingProxyType
from typing import ClassVar, Final

from confluent_kafka import OFFSET_INVALID, TopicPartition

from mqlab.drivers.api import (
    Connection,
    Driver,
    DriverError,
    Matrix,
    Receiver,
    ReceiverOptions,
    Requester,
    Responder,
    Sender,
)
from mqlab.drivers.kafka.client import Cluster
from mqlab.drivers.kafka.consumer_thread import Pump
from mqlab.drivers.kafka.links import LINGER_MILLISECONDS, KafkaReceiver, KafkaSender, Sending
from mqlab.drivers.kafka.request_reply import KafkaRequester, KafkaResponder, Replies

_REPLIES_ROOM: Final = 10_000
# Senders to queues take the partitions in turn.
_next_partition: Final = count()


class KafkaDriver(Driver):
    lacks: ClassVar[Mapping[str, str]] = MappingProxyType({
        "client acknowledgement": "Kafka acknowledges a position, not messages",
        "selectors": "Kafka cannot choose messages by their properties",
        "retrieval by correlation id": "a topic of Kafka is read in its order: every requester reads all replies",
        "depth": "a topic of Kafka keeps what was consumed",
    })  # fmt: skip

    async def connect(self, application: str = "") -> Connection:
        cluster = Cluster(self.address, self.options, application)
        try:
            await cluster.open()
        except BaseException:
            cluster.close()
            raise
        return KafkaConnection(cluster)


class KafkaConnection(Connection):
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._sendings: list[Sending] = []
        self._pumps: list[Pump] = []
        # For all requesters, which may be opened side by side.
        self._replies: dict[str, Replies] = {}
        self._asking: Sending | None = None
        self._opening = asyncio.Lock()

    async def sender(self, destination: str, *, persistent: bool, transacted: bool) -> Sender:
        topic = await self._cluster.make(destination, persistent=persistent)
        sending = await self._sending(topic, transacted=transacted)
        return KafkaSender(self._cluster, sending, topic, self._partition(destination), transacted=transacted)

    async def receiver(self, destination: str, how: ReceiverOptions) -> Receiver:
        if how.acknowledge == "client" or how.selector:
            raise DriverError(KafkaDriver.lacks["selectors" if how.selector else "client acknowledgement"])
        topic = await self._cluster.make(destination)
        is_queue = destination.startswith("queue:")
        pump = self._pump(f"all-{topic}" if is_queue else how.durable or "mqlab-nobody", how.prefetch)
        if is_queue:
            await pump.sharing(topic)
        else:
            await pump.at(topic, await (self._position(pump, topic) if how.durable else pump.end(topic)))
        commits = is_queue or bool(how.durable)
        return KafkaReceiver(pump, commits=commits, transacted=how.acknowledge == "transacted")

    async def requester(self, destination: str, reply_to: str, *, persistent: bool) -> Requester:
        topic = await self._cluster.make(destination, persistent=persistent)
        # One partition is enough for what everybody reads.
        replies = await self._cluster.make(f"topic:{reply_to}", persistent=persistent)
        async with self._opening:
            if replies not in self._replies:
                pump = self._pump("mqlab-nobody", _REPLIES_ROOM, keyed=True)
                await pump.at(replies, await pump.end(replies))
                self._replies[replies] = Replies(pump)
            if self._asking is None:
                self._asking = await self._sending(topic, linger=0)
        partition = self._partition(destination)
        return KafkaRequester(self._asking, self._replies[replies], topic, partition, replies)

    async def responder(self, destination: str, *, prefetch: int, persistent: bool) -> Responder:
        topic = await self._cluster.make(destination, persistent=persistent)
        pump = self._pump(f"all-{topic}", prefetch, keyed=True)
        await pump.sharing(topic)
        return KafkaResponder(await self._sending(topic, linger=0), pump)

    async def subscribe(self, topic: str, how: ReceiverOptions) -> None:
        if how.selector or not topic.startswith("topic:"):
            raise DriverError("a durable subscription is to a topic, and without a selector")
        name = await self._cluster.make(topic)
        pump = Pump(self._cluster, how.durable, 1)
        try:
            await self._position(pump, name)
        finally:
            await pump.close()

    async def unsubscribe(self, durable: str) -> None:
        await self._cluster.forget(durable)

    async def preload(self, queue: str, bodies: Matrix, *, persistent: bool) -> None:
        what = f"{len(bodies)} messages ({persistent=}) cannot be put on {queue} for nobody"
        raise DriverError(f"{what}: {KafkaDriver.lacks['retrieval by correlation id']}")

    async def close(self) -> None:
        parts: list[Replies | Pump | Sending] = [*self._replies.values(), *self._pumps, *self._sendings]
        try:
            ended = await asyncio.gather(*(part.close() for part in parts), return_exceptions=True)
        finally:
            self._cluster.close()
        for error in ended:
            if error is not None:
                raise error

    async def _position(self, pump: Pump, topic: str) -> list[TopicPartition]:
        """Where a durable subscription goes on; a new one begins with what comes from now on."""
        wanted = [TopicPartition(topic, 0)]
        committed: list[TopicPartition] = await self._cluster.wait(pump.consumer.committed, wanted, 30.0)
        if committed[0].offset != OFFSET_INVALID:
            return committed
        end = await pump.end(topic)
        await self._cluster.wait(pump.consumer.commit, offsets=end, asynchronous=False)
        return end

    def _partition(self, destination: str) -> int:
        return next(_next_partition) % self._cluster.partitions if destination.startswith("queue:") else 0

    async def _sending(self, topic: str, *, linger: int = LINGER_MILLISECONDS, transacted: bool = False) -> Sending:
        sending = Sending(self._cluster, linger=linger, transacted=transacted)
        self._sendings.append(sending)
        await sending.open(topic)
        return sending

    def _pump(self, group: str, room: int, *, keyed: bool = False) -> Pump:
        pump = Pump(self._cluster, group, room, keyed=keyed)
        self._pumps.append(pump)
        return pump
