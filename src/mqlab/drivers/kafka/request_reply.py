"""Request/reply over Kafka: all requesters share a reply topic, and each connection reads all of it.

The key of a request and of its reply is the reply topic and the correlation id.
"""

import asyncio
import secrets
from collections.abc import Sequence

from mqlab.drivers.api import DriverError, ReceivedBatch, Reply
from mqlab.drivers.common.coroutines import CoroutineRequester, CoroutineResponder
from mqlab.drivers.common.futures import fail_all, settle
from mqlab.drivers.common.timeouts import BLOCKED_TIMEOUT_S, NO_REPLY, with_timeout
from mqlab.drivers.kafka.consumer_thread import ConsumerThread, PartitionOffset
from mqlab.drivers.kafka.links import KafkaProducer


class ReplyReader:
    """Reads a reply topic for all requesters of one connection, and skips the replies to other connections."""

    def __init__(self, consumer: ConsumerThread) -> None:
        self._consumer = consumer
        self._waiting: dict[bytes, asyncio.Future[Reply]] = {}
        self._reading = asyncio.ensure_future(self._read())

    def expect(self, key: bytes) -> "asyncio.Future[Reply]":
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting[key] = reply
        reply.add_done_callback(lambda _: self._waiting.pop(key, None))
        if self._reading.done():
            reply.set_exception(DriverError("the connection is closed"))
        return reply

    async def close(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        await self._consumer.close()

    async def _read(self) -> None:
        try:
            while True:
                bodies, tags, redelivered = await self._consumer.inbox.take()
                for row, key in enumerate(keys_of(tags)):
                    settle(self._waiting.get(key), Reply(bodies[row], redelivered))
        except DriverError as error:
            fail_all(list(self._waiting.values()), error)


class KafkaRequester(CoroutineRequester):
    def __init__(
        self, producer: KafkaProducer, replies: ReplyReader, topic: str, partition: int, reply_to: str
    ) -> None:
        self._producer = producer
        self._replies = replies
        self._topic = topic
        self._partition = partition
        self._key_prefix = f"{reply_to} {secrets.token_hex(8)}-"

    async def request(self, body: bytes, correlation_id: str) -> Reply:
        key = f"{self._key_prefix}{correlation_id}".encode()
        reply = self._replies.expect(key)
        try:
            await self._producer.send_one(self._topic, body, key, self._partition)
            return await with_timeout(reply, BLOCKED_TIMEOUT_S, NO_REPLY)
        finally:
            reply.cancel()

    async def close(self) -> None:
        await self._producer.flush()


class KafkaResponder(CoroutineResponder):
    def __init__(self, producer: KafkaProducer, consumer: ConsumerThread, *, persistent: bool) -> None:
        self.confirms = persistent
        self._producer = producer
        self._consumer = consumer
        self._requests: list[PartitionOffset] = []

    async def receive(self) -> ReceivedBatch:
        if self._requests:
            done, self._requests = self._requests, []
            self._consumer.acknowledge(done)
        bodies, self._requests, redelivered = await self._consumer.inbox.take()
        return ReceivedBatch(bodies, redelivered)

    async def reply(self, bodies: Sequence[bytes], *, wait: bool) -> None:
        for key, body in zip(keys_of(self._requests), bodies, strict=True):
            topic, blank, _ = key.partition(b" ")
            if not blank:
                raise DriverError("a request has no reply address or no correlation id")
            await self._producer.send_one(topic.decode(), body, key, 0)
        if wait:
            await self._producer.flush()

    async def close(self) -> None:
        await self._producer.flush()
        await self._consumer.close()


def keys_of(tags: list[PartitionOffset]) -> list[bytes]:
    return [key for tag in tags for key in tag.keys]
