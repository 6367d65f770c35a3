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
from mqlab.drivers.redis.connection import Talk
from mqlab.drivers.redis.links import RedisReceiver, RedisSender
from mqlab.drivers.redis.request_reply import (
    ChannelRequester,
    ChannelResponder,
    Replies,
    StreamRequester,
    StreamResponder,
)
from mqlab.drivers.redis.streams import SHARED, Place, Reader
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
        self._control = Talk()
        self._talks: list[Talk] = [self._control]
        # Durable subscriptions, with the stream of each.
        self._durable: dict[str, Place] = {}
        # For all requesters, which may be opened side by side.
        self._replies: Replies | None = None
        self._opening = asyncio.Lock()
        self._receivers: list[RedisReceiver] = []

    async def open(self) -> None:
        await self._control.open(self._address, self._options, self._name)

    async def sender(self, destination: str, *, persistent: bool, transacted: bool) -> Sender:
        is_topic = _is_topic(destination)
        talk = await self._talk()
        key = destination.encode()
        if is_topic and not persistent and not await talk.ask(b"EXISTS", key):
            return RedisSender(talk, (b"PUBLISH", key), transacted=transacted)
        if not is_topic:
            await Place(destination, SHARED).make(talk)
        return RedisSender(talk, (b"XADD", key, b"*", b"b"), transacted=transacted)

    async def receiver(self, destination: str, how: ReceiverOptions) -> Receiver:
        if how.selector:
            raise DriverError(RedisDriver.lacks["selectors"])
        is_topic = _is_topic(destination)
        place = Place(destination, how.durable.encode() if is_topic else SHARED)
        inbox, subscribed = await self._inbox(destination, how.prefetch, subscribes=is_topic and not how.durable)
        reader = Reader(await self._talk(), self._control, place, how.prefetch, inbox)
        await reader.open()
        if how.durable:
            self._durable[how.durable] = place
        transacted = how.acknowledge == "transacted"
        receiver = RedisReceiver(inbox, reader, subscribed, says_done=bool(place.group), transacted=transacted)
        self._receivers.append(receiver)
        return receiver

    async def requester(self, destination: str, reply_to: str, *, persistent: bool) -> Requester:
        if persistent:
            await Place(destination, SHARED).make(self._control)
            return StreamRequester(await self._talk(), destination, reply_to)
        async with self._opening:
            if self._replies is None:
                replies = Replies()
                await self._open(replies.talk)
                await replies.talk.ask(b"SUBSCRIBE", replies.channel)
                self._replies = replies
        requester = ChannelRequester(self._control, self._replies, destination)
        await requester.open()
        return requester

    async def responder(self, destination: str, *, prefetch: int, persistent: bool) -> Responder:
        if not persistent:
            responder = ChannelResponder(self._control, destination, prefetch)
            await self._open(responder.talk)
            await responder.talk.ask(b"SUBSCRIBE", responder.channel)
            return responder
        inbox, _ = await self._inbox(destination, prefetch, subscribes=False)
        reader = Reader(await self._talk(), self._control, Place(destination, SHARED), prefetch, inbox)
        await reader.open()
        return StreamResponder(await self._talk(), inbox, reader)

    async def subscribe(self, topic: str, how: ReceiverOptions) -> None:
        if not _is_topic(topic) or how.selector:
            raise DriverError("a durable subscription is to a topic, and without a selector")
        place = Place(topic, how.durable.encode())
        await place.make(self._control)
        self._durable[how.durable] = place

    async def unsubscribe(self, durable: str) -> None:
        place = self._durable.pop(durable, None)
        if place is None:
            raise DriverError(f"this connection has not made the durable subscription {durable!r}")
        await self._control.ask(b"XGROUP", b"DESTROY", place.key, place.group)
        await self._control.ask(b"DEL", place.left)

    async def preload(self, queue: str, bodies: Matrix, *, persistent: bool) -> None:
        what = f"{len(bodies)} messages ({persistent=}) cannot be put on {queue} for nobody"
        raise DriverError(f"{what}: {RedisDriver.lacks['retrieval by correlation id']}")

    async def close(self) -> None:
        for receiver in self._receivers:
            # What they have not acknowledged goes to others, if the server still answers.
            with suppress(DriverError):
                await receiver.close()
        for talk in self._talks:
            await talk.close()

    async def _inbox(self, topic: str, room: int, *, subscribes: bool) -> tuple[Inbox[bytes], Talk | None]:
        """What comes for a consumer; with `subscribes`, what is published there, too."""
        put: list[Callable[[Bodies], None]] = []
        if not subscribes:
            # Messages of a stream come when they are asked for: nothing need be held back.
            return Inbox(room, _nothing, _nothing), None
        talk = await self._talk(lambda bodies: put[0](bodies))
        inbox: Inbox[bytes] = Inbox(room, talk.hold, talk.let_go)
        put.append(lambda bodies: inbox.put(bodies, []))
        talk.when_gone(inbox.fail)
        await talk.ask(b"SUBSCRIBE", topic.encode())
        return inbox, talk

    async def _talk(self, published: Callable[[Bodies], None] | None = None) -> Talk:
        talk = Talk(published)
        await self._open(talk)
        return talk

    async def _open(self, talk: Talk) -> None:
        self._talks.append(talk)
        await talk.open(self._address, self._options, self._name)


def _is_topic(destination: str) -> bool:
    kind, _, name = destination.partition(":")
    if kind not in ("queue", "topic") or not name:
        raise DriverError(f"{destination!r} is neither queue:NAME nor topic:NAME")
    return kind == "topic"


def _nothing(_: object) -> None:
    """In place of what holds a connection back."""
