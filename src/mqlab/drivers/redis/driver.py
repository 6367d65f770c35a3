"""Redis, over RESP: topics are its pub/sub, queues are streams with a consumer group.

Pub/sub keeps nothing. Persistent messages to a topic, and all to one that has durable subscriptions, go through a
stream; a receiver cannot know which of both a sender will use, so it listens to both.
A connection of Redis that waits for messages can do nothing else, so each role has one of its own.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import ClassVar

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
from mqlab.drivers.common.inbox import Inbox
from mqlab.drivers.redis.client import RedisClient
from mqlab.drivers.redis.links import RedisReceiver, RedisSender
from mqlab.drivers.redis.request_reply import (
    PubSubRequester,
    PubSubResponder,
    ReplyChannel,
    StreamRequester,
    StreamResponder,
)
from mqlab.drivers.redis.streams import SHARED, RedisStream, StreamReader
from mqlab.wire.native.bodies import Bodies


class RedisDriver(Driver):
    reports_accepted = True
    lacks: ClassVar[Mapping[str, str]] = MappingProxyType({
        "selectors": "Redis cannot choose messages by their properties",
        "retrieval by correlation id": "each requester has a list or a channel of its own for its replies",
    })  # fmt: skip

    async def connect(self, application: str = "") -> Connection:
        connection = RedisConnection(self.address, self.options, application)
        try:
            await connection.open()
        except BaseException:
            await connection.close()
            raise
        return connection


class RedisConnection(Connection):
    """`control` is a connection that never waits, for all roles together."""

    def __init__(self, address: str, options: Mapping[str, str], name: str) -> None:
        self._address = address
        self._options = options
        self._name = name
        self._control = RedisClient()
        self._clients: list[RedisClient] = [self._control]
        # Durable subscriptions, with the stream of each.
        self._durable: dict[str, RedisStream] = {}
        # For all requesters, which may be opened side by side.
        self._replies: ReplyChannel | None = None
        self._opening = asyncio.Lock()
        self._receivers: list[RedisReceiver] = []

    async def open(self) -> None:
        await self._control.open(self._address, self._options, self._name)

    async def sender(self, destination: str, *, persistent: bool, transacted: bool) -> Sender:
        is_topic = _is_topic(destination)
        client = await self._client()
        key = destination.encode()
        if is_topic and not persistent and not await client.call(b"EXISTS", key):
            return RedisSender(client, (b"PUBLISH", key), transacted=transacted)
        if not is_topic:
            await RedisStream(destination, SHARED).make(client)
        return RedisSender(client, (b"XADD", key, b"*", b"b"), transacted=transacted)

    async def receiver(self, destination: str, options: ReceiverOptions) -> Receiver:
        if options.selector:
            raise DriverError(RedisDriver.lacks["selectors"])
        is_topic = _is_topic(destination)
        stream = RedisStream(destination, options.durable.encode() if is_topic else SHARED)
        inbox, subscribed = await self._inbox(
            destination, options.prefetch, subscribes=is_topic and not options.durable
        )
        reader = StreamReader(await self._client(), self._control, stream, options.prefetch, inbox)
        await reader.open()
        if options.durable:
            self._durable[options.durable] = stream
        transacted = options.acknowledge == "transacted"
        receiver = RedisReceiver(inbox, reader, subscribed, acknowledges=bool(stream.group), transacted=transacted)
        self._receivers.append(receiver)
        return receiver

    async def requester(self, destination: str, reply_to: str, *, persistent: bool) -> Requester:
        if persistent:
            await RedisStream(destination, SHARED).make(self._control)
            return StreamRequester(await self._client(), destination, reply_to)
        async with self._opening:
            if self._replies is None:
                replies = ReplyChannel()
                await self._open(replies.client)
                await replies.client.call(b"SUBSCRIBE", replies.channel)
                self._replies = replies
        requester = PubSubRequester(self._control, self._replies, destination)
        await requester.open()
        return requester

    async def responder(self, destination: str, *, prefetch: int, persistent: bool) -> Responder:
        if not persistent:
            responder = PubSubResponder(self._control, destination, prefetch)
            await self._open(responder.client)
            await responder.client.call(b"SUBSCRIBE", responder.channel)
            return responder
        inbox, _ = await self._inbox(destination, prefetch, subscribes=False)
        reader = StreamReader(await self._client(), self._control, RedisStream(destination, SHARED), prefetch, inbox)
        await reader.open()
        return StreamResponder(await self._client(), inbox, reader)

    async def subscribe(self, topic: str, options: ReceiverOptions) -> None:
        if not _is_topic(topic) or options.selector:
            raise DriverError("a durable subscription is to a topic, and without a selector")
        stream = RedisStream(topic, options.durable.encode())
        await stream.make(self._control)
        self._durable[options.durable] = stream

    async def unsubscribe(self, durable: str) -> None:
        stream = self._durable.pop(durable, None)
        if stream is None:
            raise DriverError(f"this connection has not made the durable subscription {durable!r}")
        await self._control.call(b"XGROUP", b"DESTROY", stream.key, stream.group)
        await self._control.call(b"DEL", stream.abandoned)

    async def preload(self, queue: str, bodies: Matrix, *, persistent: bool) -> None:
        what = f"{len(bodies)} messages ({persistent=}) cannot be put on {queue} for nobody"
        raise DriverError(f"{what}: {RedisDriver.lacks['retrieval by correlation id']}")

    async def close(self) -> None:
        for receiver in self._receivers:
            # What they have not acknowledged goes to others, if the server still answers.
            with suppress(DriverError):
                await receiver.close()
        for client in self._clients:
            await client.close()

    async def _inbox(self, topic: str, capacity: int, *, subscribes: bool) -> tuple[Inbox[bytes], RedisClient | None]:
        """What comes for a consumer; with `subscribes`, what is published there, too."""
        put: list[Callable[[Bodies], None]] = []
        if not subscribes:
            # Messages of a stream come when they are asked for: nothing need be held back.
            return Inbox(capacity, _nothing, _nothing), None
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


def _is_topic(destination: str) -> bool:
    kind, _, name = destination.partition(":")
    if kind not in ("queue", "topic") or not name:
        raise DriverError(f"{destination!r} is neither queue:NAME nor topic:NAME")
    return kind == "topic"


def _nothing(_: object) -> None:
    """In place of what holds a connection back."""
