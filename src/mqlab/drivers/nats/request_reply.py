"""Request/reply over NATS: through inboxes in core NATS, or, for persistent messages, through streams.

A persistent request cannot name a reply inbox, because the stream's confirmation goes there. Its subject ends with the
words that its reply's subject ends with: the reply stream, the requester and the correlation id.
"""

import secrets
from collections.abc import Sequence

from mqlab.drivers.api import DriverError, ReceivedBatch, Reply
from mqlab.drivers.common.coroutines import CoroutineRequester, CoroutineResponder
from mqlab.drivers.common.inbox import Inbox
from mqlab.drivers.nats.client import NatsClient, NatsNames, escaped
from mqlab.drivers.nats.jetstream import JetStreamConsumer, JetStreamPublisher, create_consumer
from mqlab.drivers.nats.links import NatsSubscription
from mqlab.wire import nats


class NatsRequester(CoroutineRequester):
    def __init__(self, client: NatsClient, names: NatsNames) -> None:
        self._client = client
        self._subject = names.subject.encode()

    async def request(self, body: bytes, correlation_id: str) -> Reply:  # noqa: ARG002 - each request has an inbox
        return Reply(await self._client.request(self._subject, body), False)

    async def close(self) -> None:
        """A requester has nothing to release."""


class NatsResponder(CoroutineResponder):
    def __init__(self, client: NatsClient, inbox: Inbox[nats.Subjects], subscription: NatsSubscription) -> None:
        self._client = client
        self._inbox = inbox
        self._subscription = subscription
        self._requests: list[nats.Subjects] = []

    async def receive(self) -> ReceivedBatch:
        bodies, self._requests, redelivered = await self._inbox.take()
        if not all(tag.reply for tag in self._requests):
            raise DriverError("a request has no reply address")
        return ReceivedBatch(bodies, redelivered)

    async def reply(self, bodies: Sequence[bytes], *, wait: bool) -> None:
        pairs = zip(self._requests, bodies, strict=True)
        await self._client.send(b"".join([nats.publish(tag.reply, body) for tag, body in pairs]))
        if wait:
            await self._client.flush()

    async def close(self) -> None:
        await self._subscription.close()


class JetStreamRequester(CoroutineRequester):
    def __init__(self, client: NatsClient, requests: NatsNames, replies: NatsNames, name: str) -> None:
        self._publisher = JetStreamPublisher(client)
        self._subject = f"{requests.stored}.{replies.stored.rpartition('.')[2]}.{name}."
        self._inbox: Inbox[nats.Subjects] = Inbox(1, client.pause_reading, client.resume_reading)
        self._consumer = JetStreamConsumer(client, replies, name, 1, self._inbox)

    @classmethod
    async def open(cls, client: NatsClient, requests: NatsNames, replies: NatsNames) -> "JetStreamRequester":
        name = f"requester-{secrets.token_hex(8)}"
        await create_consumer(client, replies, name, durable=False, filtered=f"{replies.stored}.{name}.*")
        return cls(client, requests, replies, name)

    async def request(self, body: bytes, correlation_id: str) -> Reply:
        expected = escaped(correlation_id)
        await self._publisher.publish_one(f"{self._subject}{expected}".encode(), body)
        while True:
            bodies, tags, redelivered = await self._inbox.take(is_reply=True)
            await self._consumer.acknowledge(tags)
            # A late reply to an earlier request that failed may come first.
            if tags[0].subject.rpartition(b".")[2] == expected.encode():
                return Reply(bodies[0], redelivered)

    async def close(self) -> None:
        await self._publisher.close()
        await self._consumer.close([], delete=True)


class JetStreamResponder(CoroutineResponder):
    confirms = True

    def __init__(self, client: NatsClient, inbox: Inbox[nats.Subjects], consumer: JetStreamConsumer) -> None:
        self._publisher = JetStreamPublisher(client)
        self._inbox = inbox
        self._consumer = consumer
        self._requests: list[nats.Subjects] = []

    async def receive(self) -> ReceivedBatch:
        if self._requests:
            tags, self._requests = self._requests, []
            await self._consumer.acknowledge(tags)
        bodies, self._requests, redelivered = await self._inbox.take()
        return ReceivedBatch(bodies, redelivered)

    async def reply(self, bodies: Sequence[bytes], *, wait: bool) -> None:
        for tag, body in zip(self._requests, bodies, strict=True):
            # stored.queue.REQUESTS.REPLIES.REQUESTER.CORRELATION
            words = tag.subject.split(b".")
            if len(words) != 6:
                raise DriverError("a request has no reply address")
            await self._publisher.publish_one(b".".join((*words[:2], *words[3:])), body)
        if wait:
            await self._publisher.wait_confirmed()

    async def close(self) -> None:
        await self._publisher.close()
        await self._consumer.close(self._requests, delete=False)
