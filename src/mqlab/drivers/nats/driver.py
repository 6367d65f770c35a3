"""The NATS driver: persistent messages go through JetStream, all others through core NATS.

In core NATS a queue is a queue group: a message goes to one of the current members, and is lost if there is none.
A receiver cannot know which of both a sender uses, so it reads both.
"""

import secrets
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import ClassVar, Final

from mqlab.drivers import api
from mqlab.drivers.common.inbox import Inbox
from mqlab.drivers.nats.client import NatsClient, NatsNames, escaped
from mqlab.drivers.nats.jetstream import SHARED, JetStreamConsumer, create_consumer, create_stream, delete_consumer
from mqlab.drivers.nats.links import LACKS, JetStreamSender, NatsReceiver, NatsSender, NatsSubscription
from mqlab.drivers.nats.request_reply import JetStreamRequester, JetStreamResponder, NatsRequester, NatsResponder
from mqlab.wire import nats

# Unreceived bytes of one receiver before the driver pauses the whole connection. Core NATS has no credit, and other
# roles on the connection wait for their answers.
_SPARE_BYTES: Final = 8 << 20


class NatsDriver(api.Driver):
    reports_accepted = True
    lacks: ClassVar[Mapping[str, str]] = MappingProxyType({
        "transactions": "NATS has none",
        "client acknowledgement": "NATS acknowledges persistent messages only (JetStream)",
        **LACKS,
        "selectors": "NATS chooses messages by subject only",
        "retrieval by correlation id": "each requester has an inbox of its own; what is not persistent is on no queue",
        "depth": "messages that are not persistent are on no queue (a queue group of NATS keeps nothing)",
    })  # fmt: skip

    async def connect(self, application: str = "") -> api.DriverConnection:
        client = NatsClient()
        try:
            await client.open(self.address, application, self.options)
        except BaseException:
            await client.close()
            raise
        return NatsConnection(client)


class NatsConnection(api.DriverConnection):
    def __init__(self, client: NatsClient) -> None:
        self._client = client
        self._has_jetstream = bool(client.info.get("jetstream"))
        # The names of the topic of each durable subscription.
        self._durable: dict[str, NatsNames] = {}
        self._receivers: list[NatsReceiver] = []

    async def sender(self, destination: str, *, persistent: bool, transacted: bool) -> api.Sender:
        names = NatsNames.of(destination)
        if transacted:
            raise api.DriverError("NATS has no transactions")
        if not persistent:
            return NatsSender(self._client, names)
        self._check_jetstream()
        await create_stream(self._client, names)
        return JetStreamSender(self._client, names)

    async def receiver(self, destination: str, options: api.ReceiverOptions) -> api.Receiver:
        names = NatsNames.of(destination)
        if options.acknowledge not in ("auto", "dups_ok"):
            raise api.DriverError(f"NATS does not support the acknowledgement mode {options.acknowledge!r}")
        if options.selector:
            raise api.DriverError("NATS has no selectors")
        inbox: Inbox[nats.Subjects] = Inbox(
            options.prefetch, self._client.pause_reading, self._client.resume_reading, _SPARE_BYTES
        )
        consumer = None
        if options.durable:
            await self.subscribe(destination, options)
            consumer = JetStreamConsumer(self._client, names, escaped(options.durable), options.prefetch, inbox)
        elif self._has_jetstream:
            name = await self._create(names, options)
            consumer = JetStreamConsumer(self._client, names, name, options.prefetch, inbox)
        subscription = None if options.durable else NatsSubscription(self._client, names, inbox)
        await self._client.flush()
        receiver = NatsReceiver(inbox, subscription, consumer, durable=names.is_queue or bool(options.durable))
        self._receivers.append(receiver)
        return receiver

    async def requester(self, destination: str, reply_to: str, *, persistent: bool) -> api.DriverRequester:
        requests = NatsNames.of(destination)
        if not persistent:
            return NatsRequester(self._client, requests)
        replies = NatsNames.of(reply_to)
        self._check_jetstream()
        for stream in (requests, replies):
            await create_stream(self._client, stream)
        return await JetStreamRequester.open(self._client, requests, replies)

    async def responder(self, destination: str, *, prefetch: int, persistent: bool) -> api.Responder:
        names = NatsNames.of(destination)
        inbox: Inbox[nats.Subjects] = Inbox(
            prefetch, self._client.pause_reading, self._client.resume_reading, _SPARE_BYTES
        )
        if not persistent:
            subscription = NatsSubscription(self._client, names, inbox, keeps_replies=True)
            await self._client.flush()
            return NatsResponder(self._client, inbox, subscription)
        name = await self._create(names, api.ReceiverOptions(prefetch))
        consumer = JetStreamConsumer(self._client, names, name, prefetch, inbox)
        await self._client.flush()
        return JetStreamResponder(self._client, inbox, consumer)

    async def subscribe(self, topic: str, options: api.ReceiverOptions) -> None:
        names = NatsNames.of(topic)
        self._check_jetstream()
        if names.is_queue or options.selector:
            raise api.DriverError("a durable subscription is to a topic, and without a selector")
        await create_stream(self._client, names, also_core=True)
        await create_consumer(
            self._client, names, escaped(options.durable), durable=True, redeliver_after_s=options.redeliver_after_s
        )
        self._durable[options.durable] = names

    async def unsubscribe(self, durable: str) -> None:
        names = self._durable.pop(durable, None)
        if names is None:
            raise api.DriverError(f"this connection has no durable subscription {durable!r}")
        await delete_consumer(self._client, names.stream, escaped(durable))

    async def close(self) -> None:
        for receiver in self._receivers:
            # A receiver returns its unacknowledged messages, if the server still answers.
            with suppress(api.DriverError):
                await receiver.close()
        await self._client.close()

    async def _create(self, names: NatsNames, options: api.ReceiverOptions) -> str:
        """Create the stream and a consumer of it: of a queue the shared one. Return the consumer's name."""
        self._check_jetstream()
        await create_stream(self._client, names)
        name = SHARED if names.is_queue else f"reader-{secrets.token_hex(8)}"
        await create_consumer(
            self._client, names, name, durable=names.is_queue, redeliver_after_s=options.redeliver_after_s
        )
        return name

    def _check_jetstream(self) -> None:
        if not self._has_jetstream:
            raise api.DriverError("JetStream is not enabled on this NATS server")
