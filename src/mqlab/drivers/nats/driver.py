"""NATS: messages that need not be kept through its core, persistent ones through JetStream.

A queue of the core is a queue group: a message goes to one of those who are there, and to nobody if nobody is.
A receiver cannot know which of both a sender will use, so it listens to both.
"""

import secrets
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import ClassVar, Final

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
from mqlab.drivers.nats.connection import Talk
from mqlab.drivers.nats.jetstream import SHARED, Pull, delete_consumer, make_consumer, make_stream
from mqlab.drivers.nats.links import NO_TRANSACTIONS, NatsReceiver, PlainFeed, PlainSender, StoredSender
from mqlab.drivers.nats.names import Place, escaped
from mqlab.drivers.nats.request_reply import PlainRequester, PlainResponder, StoredRequester, StoredResponder
from mqlab.wire import nats

# What one receiver may let wait before the whole connection is read no more. The core knows no credit, and others on
# the connection wait for their answers.
_SPARE: Final = 8 << 20


class NatsDriver(Driver):
    reports_accepted = True
    lacks: ClassVar[Mapping[str, str]] = MappingProxyType({
        "transactions": "NATS has none",
        "client acknowledgement": "NATS acknowledges persistent messages only (JetStream)",
        "selectors": "NATS chooses messages by subject only",
        "retrieval by correlation id": "each requester has an inbox of its own; what is not persistent is on no queue",
        "depth": "messages that are not persistent are on no queue (a queue group of NATS keeps nothing)",
    })  # fmt: skip

    async def connect(self, application: str = "") -> Connection:
        talk = Talk()
        try:
            await talk.open(self.address, application, self.options)
        except BaseException:
            await talk.close()
            raise
        return NatsConnection(talk)


class NatsConnection(Connection):
    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._stores = bool(talk.info.get("jetstream"))
        # Durable subscriptions, with the topic of each.
        self._durable: dict[str, Place] = {}
        self._receivers: list[NatsReceiver] = []

    async def sender(self, destination: str, *, persistent: bool, transacted: bool) -> Sender:
        place = Place.of(destination)
        if transacted:
            raise DriverError(NO_TRANSACTIONS)
        if not persistent:
            return PlainSender(self._talk, place)
        await self._make(place)
        return StoredSender(self._talk, place)

    async def receiver(self, destination: str, how: ReceiverOptions) -> Receiver:
        place = Place.of(destination)
        if how.acknowledge not in ("auto", "dups_ok"):
            raise DriverError(f"NATS has no acknowledgement {how.acknowledge!r}")
        if how.selector:
            raise DriverError("NATS has no selectors")
        inbox: Inbox[nats.Subjects] = Inbox(how.prefetch, self._talk.hold, self._talk.let_go, _SPARE)
        pull = None
        if how.durable:
            await self.subscribe(destination, how)
            pull = Pull(self._talk, place, escaped(how.durable), how.prefetch, inbox)
        elif self._stores:
            name = await self._make(place) or f"reader-{secrets.token_hex(8)}"
            if not place.is_queue:
                await make_consumer(self._talk, place, name, lasts=False)
            pull = Pull(self._talk, place, name, how.prefetch, inbox)
        plain = None if how.durable else PlainFeed(self._talk, place, inbox)
        await self._talk.flushed()
        receiver = NatsReceiver(inbox, plain, pull, lasts=place.is_queue or bool(how.durable))
        self._receivers.append(receiver)
        return receiver

    async def requester(self, destination: str, reply_to: str, *, persistent: bool) -> Requester:
        asked = Place.of(destination)
        if not persistent:
            return PlainRequester(self._talk, asked)
        replies = Place.of(reply_to)
        await self._make(asked)
        self._check_stores()
        await make_stream(self._talk, replies)
        return await StoredRequester.opened(self._talk, asked, replies)

    async def responder(self, destination: str, *, prefetch: int, persistent: bool) -> Responder:
        place = Place.of(destination)
        inbox: Inbox[nats.Subjects] = Inbox(prefetch, self._talk.hold, self._talk.let_go, _SPARE)
        if not persistent:
            feed = PlainFeed(self._talk, place, inbox, answering=True)
            await self._talk.flushed()
            return PlainResponder(self._talk, inbox, feed)
        await self._make(place)
        pull = Pull(self._talk, place, SHARED, prefetch, inbox)
        await self._talk.flushed()
        return StoredResponder(self._talk, inbox, pull)

    async def subscribe(self, topic: str, how: ReceiverOptions) -> None:
        place = Place.of(topic)
        self._check_stores()
        if place.is_queue or how.selector:
            raise DriverError("a durable subscription is to a topic, and without a selector")
        await make_stream(self._talk, place, also_plain=True)
        await make_consumer(self._talk, place, escaped(how.durable), lasts=True)
        self._durable[how.durable] = place

    async def unsubscribe(self, durable: str) -> None:
        place = self._durable.pop(durable, None)
        if place is None:
            raise DriverError(f"this connection has not made the durable subscription {durable!r}")
        await delete_consumer(self._talk, place.stream, escaped(durable))

    async def preload(self, queue: str, bodies: Matrix, *, persistent: bool) -> None:
        what = f"{len(bodies)} messages ({persistent=}) cannot be put on {queue} for nobody"
        raise DriverError(f"{what}: {NatsDriver.lacks['retrieval by correlation id']}")

    async def close(self) -> None:
        for receiver in self._receivers:
            # What they have not acknowledged goes to others, if the server still answers.
            with suppress(DriverError):
                await receiver.close()
        await self._talk.close()

    async def _make(self, place: Place) -> str:
        """The stream, and the consumer of a queue, whose name it returns."""
        self._check_stores()
        await make_stream(self._talk, place)
        if not place.is_queue:
            return ""
        await make_consumer(self._talk, place, SHARED, lasts=True)
        return SHARED

    def _check_stores(self) -> None:
        if not self._stores:
            raise DriverError("JetStream is not enabled on this NATS server")
