"""Request/reply over the native protocol: the client library matches replies by their correlation ids."""

import asyncio
from collections.abc import Sequence

from mqlab.client import aio
from mqlab.client.errors import MessagingError
from mqlab.client.message import Message
from mqlab.drivers.api import DriverError, DriverRequester, OnReply, Reply, RequestBatch
from mqlab.drivers.common.pending_reply import PendingReply
from mqlab.drivers.common.responding import CallbackResponder
from mqlab.drivers.native.links import translated
from mqlab.wire.native.bodies import MalformedPayloadError


class NativeRequester(DriverRequester):
    def __init__(self, requester: aio.Requester) -> None:
        self._requester = requester
        self._pending = PendingReply(self._abandon)
        # A request that is persistent, or waits for credit.
        self._waiting: asyncio.Task[None] | None = None

    def ask(self, body: bytes, correlation_id: str, on_reply: OnReply) -> None:
        self._pending.expect(correlation_id, on_reply)
        if not self._requester.ask(body, correlation_id, self._arrived):
            self._waiting = asyncio.ensure_future(self._request(body, correlation_id))

    def _arrived(self) -> None:
        if self._waiting is not None:
            # The reply is to an earlier request, which was abandoned after its arrival.
            return
        try:
            reply = _checked(self._requester.take_reply(), self._pending.correlation_id)
        except (MessagingError, MalformedPayloadError, DriverError) as error:
            self._pending.settle(DriverError(str(error)))
        else:
            self._pending.settle(reply)

    async def _request(self, body: bytes, correlation_id: str) -> None:
        reply: Reply | DriverError
        try:
            reply = _checked(await self._requester.request(body, correlation_id=correlation_id), correlation_id)
        except (MessagingError, MalformedPayloadError, DriverError) as error:
            reply = DriverError(str(error))
        self._waiting = None
        self._pending.settle(reply)

    def _abandon(self) -> None:
        self._requester.abandon()
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def stop(self) -> None:
        self._pending.stop()

    async def close(self) -> None:
        self.stop()
        with translated():
            await self._requester.close()


class NativeResponder(CallbackResponder):
    """Receives and replies message by message; its replies have ids and timestamps."""

    def __init__(self, session: aio.Session, consumer: aio.Consumer, persistent: bool) -> None:
        super().__init__(persistent=persistent)
        self._session = session
        self._consumer = consumer
        consumer.on_arrival = self.arrived
        self._producers: dict[str, aio.Producer] = {}
        # The reply address and correlation id of each request of the last batch, and the replies that must wait.
        self._reply_addresses: list[tuple[str, str]] = []
        self._unsent: list[tuple[bytes, tuple[str, str]]] = []

    def take_requests(self) -> RequestBatch | None:
        try:
            deliveries = self._consumer.take_arrived()
            if not deliveries:
                return None
            requests = [one for delivery in deliveries for one in _messages(delivery)]
        except (MessagingError, MalformedPayloadError) as error:
            raise DriverError(str(error)) from error
        self._reply_addresses = [_reply_address(request) for request in requests]
        return RequestBatch([request.body for request in requests], deliveries[0].redelivered)

    def send_replies(self, bodies: Sequence[bytes]) -> bool:
        replies = [*zip(bodies, self._reply_addresses, strict=True)]
        sent = 0 if self._persistent else self._send_now(replies)
        self._unsent = replies[sent:]
        if not self._unsent:
            # It leaves with the replies.
            self._consumer.acknowledge()
        return not self._unsent

    def _send_now(self, replies: list[tuple[bytes, tuple[str, str]]]) -> int:
        """Returns how many of the replies need not wait."""
        for number, (body, (to, correlation_id)) in enumerate(replies):
            producer = self._producers.get(to)
            if producer is None or not producer.send_now(body, {"correlation_id": correlation_id}):
                return number
        return len(replies)

    async def wait_sent(self) -> None:
        sends = []
        try:
            for body, (to, correlation_id) in self._unsent:
                producer = self._producers.get(to)
                if producer is None:
                    producer = self._producers[to] = await self._session.producer(to)
                payload = producer.encoder.message(body, {"correlation_id": correlation_id}, None)
                sends.append(producer.send_batch(payload, persistent=self._persistent, confirm=self._persistent))
            await asyncio.gather(*sends)
        except MessagingError as error:
            raise DriverError(str(error)) from error
        self._unsent = []
        self._consumer.acknowledge()

    async def close(self) -> None:
        with translated():
            for producer in self._producers.values():
                await producer.close()
            # The broker redelivers requests whose replies were not sent, or not confirmed.
            await self._consumer.close(unprocessed=len(self._unsent))


def _checked(message: Message, correlation_id: str) -> Reply:
    if message.correlation_id != correlation_id:
        raise DriverError(f"the reply to {correlation_id} has the correlation id {message.correlation_id}")
    return Reply(message.body, message.redelivered)


def _messages(delivery: aio.Delivery) -> list[Message]:
    return [delivery.message()] if delivery.rows == 1 else delivery.messages()


def _reply_address(request: Message) -> tuple[str, str]:
    to, correlation_id = request.reply_to, request.correlation_id
    if not to or not correlation_id:
        raise DriverError("a request has no reply address or no correlation id")
    return to, correlation_id
