"""The Redis driver: a topic is a pub/sub channel, a queue is a stream with one consumer group.

Pub/sub keeps no messages. Persistent messages to a topic, and all messages to a topic with durable subscriptions, go
through a stream. A receiver cannot know which of both a sender uses, so it reads both.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import ClassVar

from mqlab.drivers import api
from mqlab.drivers.common.inbox import Inbox
from mqlab.drivers.redis import request_reply
from mqlab.drivers.redis.client import RedisClient
from mqlab.drivers.redis.links import LACKS, RedisReceiver, RedisSender
from mqlab.drivers.redis.streams import SHARED, RedisStream, StreamReader
from mqlab.wire.native.bodies import Bodies


class RedisDriver(api.Driver):
    reports_accepted = True
    lacks: ClassVar[Mapping[str, str]] = MappingProxyType({
        **LACKS,
        "selectors": "Redis cannot choose messages by their properties",
        "retrieval by correlation id": "each requester has a list or a channel of its own for its replies",
    })  # fmt: skip

    async def connect(self, application: str = "") -> api.DriverConnection:
        connection = RedisConnection(self.address, self.options, application)
        try:
            await connection.open()
        except BaseException:
            await connection.close()
            raise
        return connection


class RedisConnection(api.DriverConnection):
    """All roles share the client `control`, which never blocks."""

    def __init__(self, address: str, options: Mapping[str, str], name: str) -> None:
        self._address = address
        self._options = options
        self._name = name
        self._control = RedisClient()
        self._clients: list[RedisClient] = [self._control]
        # The stream of each durable subscription.
        self._durable: dict[str, RedisStream] = {}
        # One reply channel for all requesters; the lock is for those that open at the same time.
        self._replies: request_reply.ReplyChannel | None = None
        self._opening = asyncio.Lock()
        self._receivers: list[RedisReceiver] = []

    async def open(self) -> None:
        await self._control.open(self._address, self._options, self._name)

    async def sender(self, destination: str, *, persistent: bool, transacted: bool) -> api.Sender:
        is_topic = api.parse_destination(destination)[0] == "topic"
        client = await self._client()
        key = destination.encode()
        if is_topic and not persistent and not await client.call(b"EXISTS", key):
            return RedisSender(client, (b"PUBLISH", key), transacted=transacted)
        if not is_topic:
            await RedisStream(destination, SHARED).create(client)
        return RedisSender(client, (b"XADD", key, b"*", b"b"), transacted=transacted)

    async def receiver(self, destination: str, options: api.ReceiverOptions) -> api.Receiver:
        if options.selector:
            raise api.DriverError(RedisDriver.lacks["selectors"])
        is_topic = api.parse_destination(destination)[0] == "topic"
        stream = RedisStream(destination, options.durable.encode() if is_topic else SHARED)
        inbox, subscribed = await self._inbox(
            destination, options.prefetch, subscribes=is_topic and not options.durable
        )
        reader = StreamReader(
            await self._client(), self._control, stream, options.prefetch, inbox, options.redeliver_after_s
        )
        await reader.open()
        if options.durable:
            self._durable[options.durable] = stream
        transacted = options.acknowledge == "transacted"
        receiver = RedisReceiver(inbox, reader, subscribed, acknowledges=bool(stream.group), transacted=transacted)
        self._receivers.append(receiver)
        return receiver

    async def requester(self, destination: str, reply_to: str, *, persistent: bool) -> api.DriverRequester:
        if persistent:
            await RedisStream(destination, SHARED).create(self._control)
            return request_reply.StreamRequester(await self._client(), destination, reply_to)
        async with self._opening:
            if self._replies is None:
                replies = request_reply.ReplyChannel()
                await self._open(replies.client)
                await replies.client.call(b"SUBSCRIBE", replies.channel)
                self._replies = replies
        requester = request_reply.PubSubRequester(self._control, self._replies, destination)
        await requester.open()
        return requester

    async def responder(self, destination: str, *, prefetch: int, persistent: bool) -> api.Responder:
        if not persistent:
            responder = request_reply.PubSubResponder(self._control, destination, prefetch)
            await self._open(responder.client)
            await responder.client.call(b"SUBSCRIBE", responder.channel)
            return responder
        inbox, _ = await self._inbox(destination, prefetch, subscribes=False)
        reader = StreamReader(await self._client(), self._control, RedisStream(destination, SHARED), prefetch, inbox)
        await reader.open()
        return request_reply.StreamResponder(await self._client(), inbox, reader)

    async def subscribe(self, topic: str, options: api.ReceiverOptions) -> None:
        if api.parse_destination(topic)[0] != "topic" or options.selector:
            raise api.DriverError("a durable subscription is to a topic, and without a selector")
        stream = RedisStream(topic, options.durable.encode())
        await stream.create(self._control)
        self._durable[options.durable] = stream

    async def unsubscribe(self, durable: str) -> None:
        stream = self._durable.pop(durable, None)
        if stream is None:
            raise api.DriverError(f"this connection has no durable subscription {durable!r}")
        await self._control.call(b"XGROUP", b"DESTROY", stream.key, stream.group)
        await self._control.call(b"DEL", stream.abandoned)

    async def close(self) -> None:
        for receiver in self._receivers:
            # A receiver returns its unacknowledged messages, if the server still answers.
            with suppress(api.DriverError):
                await receiver.close()
        for client in self._clients:
            await client.close()

    async def _inbox(self, topic: str, capacity: int, *, subscribes: bool) -> tuple[Inbox[bytes], RedisClient | None]:
        """Return an inbox for a consumer; with `subscribes`, also the client that has subscribed to the topic."""
        put: list[Callable[[Bodies], None]] = []
        if not subscribes:
            # A stream is read on demand, so its inbox never has to pause the connection.
            return Inbox(capacity, _ignore, _ignore), None
        client = await self._client(lambda bodies: put[0](bodies))
        inbox: Inbox[bytes] = Inbox(capacity, client.pause_reading, client.resume_reading)
        put.append(lambda bodies: inbox.put(bodies, []))
        client.on_lost(inbox.fail)
        await client.call(b"SUBSCRIBE", topic.encode())
        return inbox, client

    async def _client(self, published: Callable[[Bodies], None] | None = None) -> RedisClient:
        client = RedisClient(published)
        await self._open(client)
        return client

    async def _open(self, client: RedisClient) -> None:
        self._clients.append(client)
        await client.open(self._address, self._options, self._name)


def _ignore(_: object) -> None:
    """Neither pause nor resume a connection."""
