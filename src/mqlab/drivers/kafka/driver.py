"""The Kafka driver, on Kafka's C library.

Every destination is a Kafka topic. A topic of the lab has one partition, which every subscriber reads. A queue has
several, which its consumers share as one group. Each sender uses one partition, so that its messages stay in order;
consumers beyond the number of partitions get none.
"""

import asyncio
from collections.abc import Mapping
from itertools import count
from types import MappingProxyType
from typing import ClassVar, Final

from confluent_kafka import OFFSET_INVALID, TopicPartition

from mqlab.drivers import api
from mqlab.drivers.kafka.client import KafkaClient
from mqlab.drivers.kafka.consumer_thread import ConsumerThread
from mqlab.drivers.kafka.links import LACKS, LINGER_MS, KafkaProducer, KafkaReceiver, KafkaSender
from mqlab.drivers.kafka.request_reply import KafkaRequester, KafkaResponder, ReplyReader

_REPLY_CAPACITY: Final = 10_000
# Senders to queues use the partitions in turn.
_next_partition: Final = count()


class KafkaDriver(api.Driver):
    lacks: ClassVar[Mapping[str, str]] = MappingProxyType({
        "client acknowledgement": "Kafka acknowledges a position, not messages",
        **LACKS,
        "selectors": "Kafka cannot choose messages by their properties",
        "retrieval by correlation id": "a topic of Kafka is read in its order: every requester reads all replies",
        "depth": "a topic of Kafka keeps what was consumed",
    })  # fmt: skip
    frame_each = False

    async def connect(self, application: str = "") -> api.DriverConnection:
        client = KafkaClient(self.address, self.options, application)
        try:
            await client.open()
        except BaseException:
            client.close()
            raise
        return KafkaConnection(client)


class KafkaConnection(api.DriverConnection):
    def __init__(self, client: KafkaClient) -> None:
        self._client = client
        self._producers: list[KafkaProducer] = []
        self._consumers: list[ConsumerThread] = []
        # Shared by all requesters; the lock is for those that open at the same time.
        self._replies: dict[str, ReplyReader] = {}
        self._request_producer: KafkaProducer | None = None
        self._opening = asyncio.Lock()

    async def sender(self, destination: str, *, persistent: bool, transacted: bool) -> api.Sender:
        topic = await self._client.create_topic(destination, persistent=persistent)
        producer = await self._producer(topic, transacted=transacted)
        return KafkaSender(self._client, producer, topic, self._partition(destination), transacted=transacted)

    async def receiver(self, destination: str, options: api.ReceiverOptions) -> api.Receiver:
        if options.acknowledge == "client" or options.selector:
            raise api.DriverError(KafkaDriver.lacks["selectors" if options.selector else "client acknowledgement"])
        topic = await self._client.create_topic(destination)
        is_queue = destination.startswith("queue:")
        consumer = self._consumer(f"all-{topic}" if is_queue else options.durable or "mqlab-nobody", options.prefetch)
        if is_queue:
            await consumer.join_group(topic)
        else:
            await consumer.start_at(
                topic, await (self._position(consumer, topic) if options.durable else consumer.end_offsets(topic))
            )
        commits = is_queue or bool(options.durable)
        return KafkaReceiver(consumer, commits=commits, transacted=options.acknowledge == "transacted")

    async def requester(self, destination: str, reply_to: str, *, persistent: bool) -> api.DriverRequester:
        topic = await self._client.create_topic(destination, persistent=persistent)
        # A reply topic has one partition, which every requester reads.
        replies = await self._client.create_topic(f"topic:{reply_to}", persistent=persistent)
        async with self._opening:
            if replies not in self._replies:
                consumer = self._consumer("mqlab-nobody", _REPLY_CAPACITY, with_keys=True)
                await consumer.start_at(replies, await consumer.end_offsets(replies))
                self._replies[replies] = ReplyReader(consumer)
            if self._request_producer is None:
                self._request_producer = await self._producer(topic, linger_ms=0)
        partition = self._partition(destination)
        return KafkaRequester(self._request_producer, self._replies[replies], topic, partition, replies)

    async def responder(self, destination: str, *, prefetch: int, persistent: bool) -> api.Responder:
        topic = await self._client.create_topic(destination, persistent=persistent)
        consumer = self._consumer(f"all-{topic}", prefetch, with_keys=True)
        await consumer.join_group(topic)
        return KafkaResponder(await self._producer(topic, linger_ms=0), consumer, persistent=persistent)

    async def subscribe(self, topic: str, options: api.ReceiverOptions) -> None:
        if options.selector or not topic.startswith("topic:"):
            raise api.DriverError("a durable subscription is to a topic, and without a selector")
        name = await self._client.create_topic(topic)
        consumer = ConsumerThread(self._client, options.durable, 1)
        try:
            await self._position(consumer, name)
        finally:
            await consumer.close()

    async def unsubscribe(self, durable: str) -> None:
        await self._client.delete_group(durable)

    async def close(self) -> None:
        parts: list[ReplyReader | ConsumerThread | KafkaProducer] = [
            *self._replies.values(),
            *self._consumers,
            *self._producers,
        ]
        try:
            ended = await asyncio.gather(*(part.close() for part in parts), return_exceptions=True)
        finally:
            self._client.close()
        for error in ended:
            if error is not None:
                raise error

    async def _position(self, consumer: ConsumerThread, topic: str) -> list[TopicPartition]:
        """Return the committed offsets of a durable subscription; a new one starts at the end."""
        partitions = [TopicPartition(topic, 0)]
        committed: list[TopicPartition] = await self._client.run_blocking(consumer.consumer.committed, partitions, 30.0)
        if committed[0].offset != OFFSET_INVALID:
            return committed
        end = await consumer.end_offsets(topic)
        await self._client.run_blocking(consumer.consumer.commit, offsets=end, asynchronous=False)
        return end

    def _partition(self, destination: str) -> int:
        return next(_next_partition) % self._client.partitions if destination.startswith("queue:") else 0

    async def _producer(self, topic: str, *, linger_ms: int = LINGER_MS, transacted: bool = False) -> KafkaProducer:
        producer = KafkaProducer(self._client, linger_ms=linger_ms, transacted=transacted)
        self._producers.append(producer)
        await producer.open(topic)
        return producer

    def _consumer(self, group: str, capacity: int, *, with_keys: bool = False) -> ConsumerThread:
        consumer = ConsumerThread(self._client, group, capacity, with_keys=with_keys)
        self._consumers.append(consumer)
        return consumer
