"""Links of the NATS driver: senders to core NATS and to JetStream, and the receiver of both."""

from collections.abc import Mapping
from typing import Final

from mqlab.drivers.api import Matrix, MessageHeaders, Properties, ReceivedBatch, Receiver, Sender
from mqlab.drivers.common.barriers import Barriers
from mqlab.drivers.common.inbox import Inbox
from mqlab.drivers.nats.client import NatsClient, NatsNames
from mqlab.drivers.nats.jetstream import JetStreamConsumer, JetStreamPublisher, encode_with_headers
from mqlab.wire import nats
from mqlab.wire.equal_frames import FrameTemplate
from mqlab.wire.native.bodies import Bodies

LACKS: Final[Mapping[str, str]] = {
    "priority": "NATS has no priorities",
    "expiry": "single messages of NATS do not expire in this driver",
    "keys": "NATS messages have no keys beside their subject",
}


class NatsSender(Sender):
    """Core NATS does not confirm messages, so a PING serves as barrier: its PONG follows all messages before it."""

    def __init__(self, client: NatsClient, names: NatsNames) -> None:
        self._client = client
        self._subject = names.subject.encode()
        self._templates: dict[int, FrameTemplate] = {}
        self._barriers = Barriers(client.ping)

    async def send(
        self, bodies: Matrix, *, wait: bool, properties: Properties | None = None, headers: MessageHeaders | None = None
    ) -> None:
        if headers is not None:
            headers.check(LACKS)
        size = bodies.shape[1]
        if properties is not None:
            await self._client.send(b"".join(encode_with_headers(self._subject, bodies, properties)))
        else:
            template = self._templates.get(size)
            if template is None:
                template = self._templates[size] = nats.template(self._subject, size)
            await self._client.send(template.filled(bodies))
        self._barriers.add(len(bodies))
        if wait:
            await self._barriers.wait_accepted()

    async def wait_accepted(self, max_pending: int) -> None:
        await self._barriers.wait_accepted(max_pending)

    async def close(self) -> None:
        await self._barriers.wait_accepted()


class JetStreamSender(Sender):
    """JetStream confirms every message, even if the role does not wait."""

    def __init__(self, client: NatsClient, names: NatsNames) -> None:
        self._publisher = JetStreamPublisher(client)
        self._subject = names.stored.encode()

    async def send(
        self, bodies: Matrix, *, wait: bool, properties: Properties | None = None, headers: MessageHeaders | None = None
    ) -> None:
        if headers is not None:
            headers.check(LACKS)
        await self._publisher.publish(self._subject, bodies, properties)
        if wait:
            await self._publisher.wait_confirmed()

    async def wait_accepted(self, max_pending: int) -> None:
        await self._publisher.wait_confirmed(max_pending)

    async def close(self) -> None:
        await self._publisher.close()


class NatsSubscription:
    """A subscription of core NATS, whose messages go to an inbox."""

    def __init__(
        self, client: NatsClient, names: NatsNames, inbox: Inbox[nats.Subjects], *, keeps_replies: bool = False
    ) -> None:
        self._client = client
        self._inbox = inbox
        self._keeps_replies = keeps_replies
        self._closing = False
        group = "all" if names.is_queue else ""
        self._sid = client.subscribe(names.subject, self._delivered, self._headed, group)
        client.on_lost(inbox.fail)

    async def close(self) -> None:
        # Messages that still come are dropped: a full inbox would pause the connection, and the PONG behind them.
        self._closing = True
        self._client.unsubscribe(self._sid)
        self._client.resume_reading(self._inbox)
        await self._client.flush()
        self._client.remove_subscription(self._sid, self._inbox.fail)

    def _delivered(self, delivered: nats.SubscriptionBatch) -> None:
        if self._closing:
            return
        tags: list[nats.Subjects] = []
        if self._keeps_replies:
            tags = [nats.Subjects(*pair) for pair in zip(delivered.subjects, delivered.replies, strict=True)]
        self._inbox.put(delivered.bodies, tags)

    def _headed(self, headed: nats.HeaderMessage) -> None:
        """A message with properties."""
        body, run = Bodies.of([headed.body]), (1, headed.subject, headed.reply)
        self._delivered(nats.SubscriptionBatch(headed.sid, body, [run]))


class NatsReceiver(Receiver):
    """Gets messages from `subscription` (core NATS) and `consumer` (JetStream), and acknowledges the latter."""

    def __init__(
        self,
        inbox: Inbox[nats.Subjects],
        subscription: NatsSubscription | None,
        consumer: JetStreamConsumer | None,
        *,
        durable: bool,
    ) -> None:
        self._inbox = inbox
        self._subscription = subscription
        self._consumer = consumer
        self._durable = durable
        self._unacknowledged: list[nats.Subjects] = []

    async def receive(self) -> ReceivedBatch:
        if self._unacknowledged and self._consumer is not None:
            tags, self._unacknowledged = self._unacknowledged, []
            self._consumer.acknowledge(tags)
        bodies, self._unacknowledged, redelivered = await self._inbox.take()
        return ReceivedBatch(bodies, redelivered)

    async def close(self) -> None:
        subscription, consumer, self._subscription, self._consumer = self._subscription, self._consumer, None, None
        if subscription is not None:
            await subscription.close()
        if consumer is not None:
            await consumer.close(self._unacknowledged, delete=not self._durable)
