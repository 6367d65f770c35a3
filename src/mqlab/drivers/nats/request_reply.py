"""Request/reply over NATS: through inboxes in core NATS, or, for persistent messages, through streams.

A persistent request cannot name a reply inbox, because the stream's confirmation goes there. Its subject ends with the
words that its reply's subject ends with: the reply stream, the requester and the correlation id.
"""

import secrets
from collections.abc import Sequence

from mqlab.drivers.api import DriverError, DriverRequester, OnReply, Reply, RequestBatch
from mqlab.drivers.common.inbox import Inbox
from mqlab.drivers.common.pending_reply import PendingReply
from mqlab.drivers.common.responding import CallbackResponder
from mqlab.drivers.nats.client import NatsClient, NatsNames, escaped
from mqlab.drivers.nats.jetstream import JetStreamConsumer, JetStreamPublisher, create_consumer
from mqlab.drivers.nats.links import NatsSubscription
from mqlab.wire import nats


class NatsRequester(DriverRequester):
    def __init__(self, client: NatsClient, names: NatsNames) -> None:
        self._client = client
        self._subject = names.subject.encode()
        self._pending = PendingReply(lambda: client.forget(self._token))
        self._token = b""

    def ask(self, body: bytes, correlation_id: str, on_reply: OnReply) -> None:
        self._pending.expect(correlation_id, on_reply)
        try:
            # Each request has an inbox of its own.
            self._token = self._client.ask(self._subject, body, self._answered)
        except DriverError as error:
            self._pending.fail(error)

    def _answered(self, answer: bytes | DriverError) -> None:
        self._pending.settle(answer if isinstance(answer, DriverError) else Reply(answer, False))

    def stop(self) -> None:
        self._pending.stop()

    async def close(self) -> None:
        self.stop()


class NatsResponder(CallbackResponder):
    def __init__(self, client: NatsClient, inbox: Inbox[nats.Subjects], subscription: NatsSubscription) -> None:
        super().__init__(persistent=False)
        self._client = client
        self._inbox = inbox
        inbox.on_arrival = self.arrived
        self._subscription = subscription
        self._requests: list[nats.Subjects] = []

    def take_requests(self) -> RequestBatch | None:
        arrived = self._inbox.take_arrived()
        if arrived is None:
            return None
        bodies, self._requests, redelivered = arrived
        if not all(tag.reply for tag in self._requests):
            raise DriverError("a request has no reply address")
        return RequestBatch(bodies.tolist(), redelivered)

    def send_replies(self, bodies: Sequence[bytes]) -> bool:
        pairs = zip(self._requests, bodies, strict=True)
        self._client.write(b"".join([nats.publish(tag.reply, body) for tag, body in pairs]))
        return not self._client.is_write_paused

    async def wait_sent(self) -> None:
        await self._client.wait_writable()

    async def close(self) -> None:
        await self._subscription.close()


class JetStreamRequester(DriverRequester):
    def __init__(self, client: NatsClient, requests: NatsNames, replies: NatsNames, name: str) -> None:
        self._publisher = JetStreamPublisher(client)
        self._subject = f"{requests.stored}.{replies.stored.rpartition('.')[2]}.{name}."
        self._inbox: Inbox[nats.Subjects] = Inbox(1, client.pause_reading, client.resume_reading)
        self._inbox.on_arrival = self._arrived
        self._consumer = JetStreamConsumer(client, replies, name, 1, self._inbox)
        self._pending = PendingReply()

    @classmethod
    async def open(cls, client: NatsClient, requests: NatsNames, replies: NatsNames) -> "JetStreamRequester":
        name = f"requester-{secrets.token_hex(8)}"
        await create_consumer(client, replies, name, durable=False, filtered=f"{replies.stored}.{name}.*")
        return cls(client, requests, replies, name)

    def ask(self, body: bytes, correlation_id: str, on_reply: OnReply) -> None:
        self._pending.expect(escaped(correlation_id), on_reply)
        try:
            self._publisher.publish_one(f"{self._subject}{self._pending.correlation_id}".encode(), body)
        except DriverError as error:
            self._pending.fail(error)

    def _arrived(self) -> None:
        try:
            while (arrived := self._inbox.take_arrived()) is not None:
                bodies, tags, redelivered = arrived
                self._consumer.acknowledge(tags)
                # A late reply to an earlier request that failed may come first.
                if tags[0].subject.rpartition(b".")[2] == self._pending.correlation_id.encode():
                    self._pending.settle(Reply(bodies[0], redelivered))
        except DriverError as error:
            self._pending.settle(error)

    def stop(self) -> None:
        self._pending.stop()

    async def close(self) -> None:
        self.stop()
        await self._publisher.close()
        await self._consumer.close([], delete=True)


class JetStreamResponder(CallbackResponder):
    def __init__(self, client: NatsClient, inbox: Inbox[nats.Subjects], consumer: JetStreamConsumer) -> None:
        super().__init__(persistent=True)
        self._publisher = JetStreamPublisher(client)
        self._inbox = inbox
        inbox.on_arrival = self.arrived
        self._consumer = consumer
        self._requests: list[nats.Subjects] = []

    def take_requests(self) -> RequestBatch | None:
        arrived = self._inbox.take_arrived()
        if arrived is None:
            return None
        bodies, self._requests, redelivered = arrived
        return RequestBatch(bodies.tolist(), redelivered)

    def send_replies(self, bodies: Sequence[bytes]) -> bool:
        for tag, body in zip(self._requests, bodies, strict=True):
            # stored.queue.REQUESTS.REPLIES.REQUESTER.CORRELATION
            words = tag.subject.split(b".")
            if len(words) != 6:
                raise DriverError("a request has no reply address")
            self._publisher.publish_one(b".".join((*words[:2], *words[3:])), body)
        return False

    async def wait_sent(self) -> None:
        await self._publisher.wait_confirmed()
        tags, self._requests = self._requests, []
        self._consumer.acknowledge(tags)

    async def close(self) -> None:
        await self._publisher.close()
        await self._consumer.close(self._requests, delete=False)
