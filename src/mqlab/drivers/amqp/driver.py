"""The driver of AMQP 0-9-1 as RabbitMQ implements it: a channel for each role, a fanout exchange for each topic."""

from collections.abc import Mapping
from typing import ClassVar, Final
from uuid import uuid4

from mqlab.drivers import api
from mqlab.drivers.amqp.client import AmqpChannel, AmqpClient
from mqlab.drivers.amqp.links import LACKS, AmqpReceiver, AmqpSender
from mqlab.drivers.amqp.request_reply import AmqpRequester, AmqpResponder
from mqlab.wire.amqp.content import AmqpPublisher
from mqlab.wire.amqp.handshake import AmqpHandshake

_MAX_PREFETCH: Final = 0xFFFF
_PRELOAD_BATCH: Final = 1000


class AmqpDriver(api.Driver):
    """Options: user, password (both default to guest), virtual_host."""

    reports_accepted = True
    lacks: ClassVar[Mapping[str, str]] = {
        "selectors": "an AMQP 0-9-1 consumer gets all that is on its queue",
        "retrieval by correlation id": "a consumer cannot choose messages: each requester has its own queue",
        **LACKS,
        "bindings": "AMQP needs a connection",
        "distributed": "there are no channels between brokers in this driver",
    }

    async def connect(self, application: str = "") -> api.DriverConnection:
        user, password = self.options.get("user", "guest"), self.options.get("password", "guest")
        handshake = AmqpHandshake(user, password, self.options.get("virtual_host", "/"), application)
        client = AmqpClient(handshake)
        await client.open(self.address)
        return AmqpConnection(client)


class AmqpConnection(api.DriverConnection):
    """Declares all queues and exchanges durable, because their users do not know of each other. Each message decides
    whether it is persistent."""

    def __init__(self, client: AmqpClient) -> None:
        self._client = client
        self._dups_ok_receivers: list[AmqpReceiver] = []

    async def sender(self, destination: str, *, persistent: bool, transacted: bool) -> api.Sender:
        channel = await self._client.channel()
        if transacted:
            await channel.call("tx.select")
        elif persistent:
            await channel.enable_confirms()
        publishing = await self._publishing(channel, destination, persistent)
        return AmqpSender(channel, publishing, transacted=transacted)

    async def receiver(self, destination: str, options: api.ReceiverOptions) -> api.Receiver:
        if options.selector:
            raise api.DriverError(AmqpDriver.lacks["selectors"])
        channel = await self._client.channel()
        queue = await _declare_source(channel, destination, options.durable)
        if options.acknowledge == "transacted":
            await channel.call("tx.select")
        await _consume(channel, queue, options.prefetch)
        receiver = AmqpReceiver(channel, options.acknowledge, options.prefetch)
        if options.acknowledge == "dups_ok":
            self._dups_ok_receivers.append(receiver)
        return receiver

    async def requester(self, destination: str, reply_to: str, *, persistent: bool) -> api.DriverRequester:
        channel = await self._client.channel()
        publishing = await self._publishing(channel, destination, persistent)
        queue = f"{reply_to.partition(':')[2]}.{uuid4().hex}"
        # A durable reply queue survives a restart of the system, so it cannot be exclusive to this connection.
        exclusive = not persistent
        await channel.call("queue.declare", 0, queue, False, persistent, exclusive, exclusive, False, {})
        # An exclusive queue never redelivers, so its replies need no acknowledgement.
        await _consume(channel, queue, 0, acknowledged=persistent)
        return AmqpRequester(channel, publishing, queue, acknowledges=persistent)

    async def responder(self, destination: str, *, prefetch: int, persistent: bool) -> api.Responder:
        channel = await self._client.channel()
        if persistent:
            await channel.enable_confirms()
        await _consume(channel, await _declare_source(channel, destination, ""), prefetch)
        return AmqpResponder(channel, persistent=persistent)

    async def subscribe(self, topic: str, options: api.ReceiverOptions) -> None:
        if options.selector:
            raise api.DriverError(AmqpDriver.lacks["selectors"])
        channel = await self._client.channel()
        await _declare_source(channel, topic, options.durable)
        await channel.close()

    async def unsubscribe(self, durable: str) -> None:
        channel = await self._client.channel()
        await channel.call("queue.delete", 0, f"subscription:{durable}", False, False, False)
        await channel.close()

    async def preload(self, queue: str, bodies: api.Matrix, *, persistent: bool) -> None:
        channel = await self._client.channel()
        publishing = await self._publishing(channel, queue, persistent)
        await channel.enable_confirms()
        for first in range(0, len(bodies), _PRELOAD_BATCH):
            rows = bodies[first : first + _PRELOAD_BATCH]
            frames = [publishing.message(row.tobytes(), f"preload-{first + at}") for at, row in enumerate(rows)]
            await channel.publish(b"".join(frames), len(frames))
        await channel.wait_confirmed()
        await channel.close()

    async def close(self) -> None:
        for receiver in self._dups_ok_receivers:
            await receiver.close()
        await self._client.close()

    async def _publishing(self, channel: AmqpChannel, destination: str, persistent: bool) -> AmqpPublisher:
        """Declare the queue or exchange, and return a publisher to it."""
        kind, _, name = destination.partition(":")
        exchange, key = (name, "") if kind == "topic" else ("", name)
        if kind == "topic":
            await _declare_exchange(channel, name)
        else:
            await _declare_queue(channel, name)
        return AmqpPublisher(channel.number, exchange, key, persistent=persistent, frame_max=self._client.frame_max)


async def _declare_queue(channel: AmqpChannel, name: str) -> None:
    await channel.call("queue.declare", 0, name, False, True, False, False, False, {})


async def _declare_exchange(channel: AmqpChannel, name: str) -> None:
    await channel.call("exchange.declare", 0, name, "fanout", False, True, False, False, False, {})


async def _declare_source(channel: AmqpChannel, destination: str, durable: str) -> str:
    """Return the queue to consume. For a topic, declare one that gets all later messages."""
    kind, _, name = destination.partition(":")
    if kind != "topic":
        await _declare_queue(channel, name)
        return name
    await _declare_exchange(channel, name)
    queue = f"subscription:{durable}" if durable else ""
    is_durable = bool(durable)
    passing = not is_durable
    declared = await channel.call("queue.declare", 0, queue, False, is_durable, passing, passing, False, {})
    queue = str(declared.arguments[0])
    await channel.call("queue.bind", 0, queue, name, "", False, {})
    return queue


async def _consume(channel: AmqpChannel, queue: str, prefetch: int, *, acknowledged: bool = True) -> None:
    if prefetch:
        await channel.call("basic.qos", 0, min(prefetch, _MAX_PREFETCH), False)
    await channel.call("basic.consume", 0, queue, "c", False, not acknowledged, False, False, {})
