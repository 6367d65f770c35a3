"""Request/reply: a requester sends a request and waits for its reply."""

import secrets
import time
from collections.abc import Callable, Mapping
from typing import Unpack

from mqlab.client.connection import NativeClientConnection
from mqlab.client.consumer import Consumer
from mqlab.client.headers import Headers
from mqlab.client.message import Message
from mqlab.client.producer import Producer
from mqlab.wire.native.bodies import Buffer
from mqlab.wire.native.columns import Value


class Requester:
    """One request at a time. On a shared reply queue the broker finds the reply by its correlation id."""

    def __init__(
        self,
        connection: NativeClientConnection,
        producer: Producer,
        consumer: Consumer,
        *,
        persistent: bool,
        shared: bool,
    ) -> None:
        # With the name of the broker, if it has one, so that a responder on another broker can route its reply.
        is_qualified = not connection.broker or "@" in consumer.destination
        self.reply_to = consumer.destination if is_qualified else f"{consumer.destination}@{connection.broker}"
        self._connection = connection
        self._producer = producer
        self._consumer = consumer
        self._persistent = persistent
        self._shared = shared
        self._token = secrets.token_hex(8)
        self._requests = 0

    async def request(
        self, body: Buffer, timeout: float | None = None, *, properties: Mapping[str, Value] | None = None,
        **headers: Unpack[Headers],
    ) -> Message:  # fmt: skip
        """Send a request and wait for its reply. Raises TimeoutError after `timeout` seconds; ignores late replies."""
        correlation_id = headers.get("correlation_id")
        if correlation_id is None:
            self._requests += 1
            correlation_id = headers["correlation_id"] = f"{self._token}-{self._requests}"
        headers["reply_to"] = self.reply_to
        # The request and the receive of its reply leave together.
        self._connection.hold_flush = True
        try:
            consumer = self._consumer
            if self._shared and not self._persistent and consumer.can_await_reply:
                payload = self._producer.encoder.message(body, headers, properties)
                if self._producer.try_request(payload, correlation_id, consumer):
                    return (await consumer.await_reply(timeout)).message()
            if self._persistent or not self._producer.try_send(body, headers, properties):
                await self._producer.send(body, persistent=self._persistent, properties=properties, **headers)
            if self._shared:
                return await self._consumer.receive(timeout, correlation_id=correlation_id)
            return await self._next_reply(correlation_id, timeout)
        except BaseException:
            self._connection.flush_before_wait()
            raise

    # For callbacks of the event loop

    def ask(self, body: bytes, correlation_id: str, on_arrival: Callable[[], None]) -> bool:
        """Send a request now; `on_arrival` is called when `take_reply` can take the reply or raises an error.

        Returns False, with nothing changed, if the caller would have to wait: then `request` does.
        """
        consumer = self._consumer
        if self._persistent or not self._shared or not consumer.can_await_reply:
            return False
        headers = Headers(correlation_id=correlation_id, reply_to=self.reply_to)
        payload = self._producer.encoder.message(body, headers, None)
        # Before the request: a broker in this process replies at once.
        consumer.on_arrival = on_arrival
        if self._producer.request_now(payload, correlation_id, consumer):
            return True
        consumer.on_arrival = None
        return False

    def take_reply(self) -> Message:
        """Raises MessagingError."""
        self._consumer.on_arrival = None
        [delivery] = self._consumer.take_arrived()
        return delivery.message()

    def abandon(self) -> None:
        """Do not wait for the reply to the last request any more."""
        if self._consumer.on_arrival is not None:
            self._consumer.on_arrival = None
            self._consumer.abandon_receive()

    async def _next_reply(self, correlation_id: str | None, timeout: float | None) -> Message:
        # A late reply to an earlier request does not extend the timeout of this one.
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            reply = await self._consumer.receive(None if deadline is None else max(0.0, deadline - time.monotonic()))
            if reply.correlation_id == correlation_id:
                return reply

    async def close(self) -> None:
        await self._producer.close()
        await self._consumer.close()
