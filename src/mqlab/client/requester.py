"""Request and reply: a requester sends, and waits for the reply to just that request."""

import secrets
import time
from collections.abc import Mapping
from typing import Unpack

from mqlab.client.connection import Wire
from mqlab.client.consumer import Consumer
from mqlab.client.headers import Headers
from mqlab.client.message import Message
from mqlab.client.producer import Producer
from mqlab.wire.native.bodies import Buffer, Payload
from mqlab.wire.native.columns import Value
from mqlab.wire.templates import MessageTemplate


class Requester:
    """One request at a time. On a shared queue the reply is found by its correlation id, whatever else lies there."""

    def __init__(self, wire: Wire, producer: Producer, consumer: Consumer, *, persistent: bool, shared: bool) -> None:
        # With the name of the broker, if it has one: so whoever answers from another one finds the way back.
        named = not wire.broker or "@" in consumer.destination
        self.reply_to = consumer.destination if named else f"{consumer.destination}@{wire.broker}"
        self._wire = wire
        self._producer = producer
        self._consumer = consumer
        self._persistent = persistent
        self._shared = shared
        self._token = secrets.token_hex(8)
        self._requests = 0
        # As most requests and replies are.
        self._asking = (
            MessageTemplate(("correlation_id", "reply_to"), (self.reply_to,)) if producer.stamp.adds_nothing else None
        )
        self._answering = MessageTemplate(("correlation_id",))

    async def request(
        self, body: Buffer, timeout: float | None = None, *, properties: Mapping[str, Value] | None = None,
        **headers: Unpack[Headers],
    ) -> Message:  # fmt: skip
        """Raises TimeoutError if no reply came in so many seconds; one that comes later is not mistaken for another."""
        correlation_id = headers.get("correlation_id")
        if correlation_id is None:
            self._requests += 1
            correlation_id = headers["correlation_id"] = f"{self._token}-{self._requests}"
        # The request leaves together with the wish for its reply.
        self._wire.held = True
        try:
            consumer = self._consumer
            if self._shared and not self._persistent and consumer.can_expect:
                payload = self._written(body, correlation_id, headers, properties)
                if self._producer.asked_at_once(payload, correlation_id, consumer):
                    return (await consumer.expected(timeout)).message(self._answering, correlation_id)
            headers["reply_to"] = self.reply_to
            if self._persistent or not self._producer.sent_at_once(body, headers, properties):
                await self._producer.send(body, persistent=self._persistent, properties=properties, **headers)
            if self._shared:
                return await self._consumer.receive(timeout, correlation_id=correlation_id)
            return await self._next_reply(correlation_id, timeout)
        except BaseException:
            self._wire.about_to_wait()
            raise

    def _written(
        self, body: Buffer, correlation_id: str, headers: Headers, properties: Mapping[str, Value] | None
    ) -> Payload:
        is_plain = len(headers) == 1 and not properties and correlation_id.isascii()
        if self._asking is not None and is_plain and isinstance(body, bytes):
            return self._asking.message(correlation_id, body)
        headers["reply_to"] = self.reply_to
        return self._producer.stamp.message(body, headers, properties)

    async def _next_reply(self, correlation_id: str | None, timeout: float | None) -> Message:
        # A late reply to an earlier request does not prolong the time for this one.
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            reply = await self._consumer.receive(None if until is None else max(0.0, until - time.monotonic()))
            if reply.correlation_id == correlation_id:
                return reply

    async def close(self) -> None:
        await self._producer.close()
        await self._consumer.close()
