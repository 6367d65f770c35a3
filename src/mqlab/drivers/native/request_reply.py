"""Request/reply over the native protocol: the client library matches replies by their correlation ids."""

import asyncio
from collections.abc import Sequence

from mqlab.client import aio
from mqlab.client.errors import MessagingError
from mqlab.client.message import Message
from mqlab.drivers.api import DriverError, DriverRequester, ReceivedBatch, Reply, Responder
from mqlab.drivers.common.timeouts import BLOCKED_TIMEOUT_S, NO_REPLY
from mqlab.drivers.native.links import translated
from mqlab.wire.native.bodies import Bodies, MalformedPayloadError


class NativeRequester(DriverRequester):
    def __init__(self, requester: aio.Requester) -> None:
        self._requester = requester

    async def request(self, body: bytes, correlation_id: str) -> Reply:
        try:
            message = await self._requester.request(body, BLOCKED_TIMEOUT_S, correlation_id=correlation_id)
            if message.correlation_id != correlation_id:
                raise DriverError(f"the reply to {correlation_id} has the correlation id {message.correlation_id}")
        except TimeoutError:
            raise DriverError(f"{NO_REPLY} within {BLOCKED_TIMEOUT_S:g} s") from None
        except (MessagingError, MalformedPayloadError) as error:
            raise DriverError(str(error)) from error
        return Reply(message.body, message.redelivered)

    async def close(self) -> None:
        with translated():
            await self._requester.close()


class NativeResponder(Responder):
    """Receives and replies message by message; its replies have ids and timestamps."""

    def __init__(self, session: aio.Session, consumer: aio.Consumer, persistent: bool) -> None:
        self._session = session
        self._consumer = consumer
        self._persistent = persistent
        self._producers: dict[str, aio.Producer] = {}
        # The reply address and correlation id of each request of the last `receive`.
        self._reply_addresses: list[tuple[str, str]] = []
        # A request that begins the next batch.
        self._held: Message | None = None

    async def receive(self) -> ReceivedBatch:
        try:
            requests = await self._receive_ready()
            self._reply_addresses = [_reply_address(request) for request in requests]
        except (MessagingError, MalformedPayloadError) as error:
            raise DriverError(str(error)) from error
        return ReceivedBatch(Bodies.of([request.body for request in requests]), requests[0].redelivered)

    async def _receive_ready(self) -> list[Message]:
        """The next request, and those that no call waits for and that are redelivered, or not, like it."""
        requests = [self._held or await self._consumer.receive()]
        self._held = None
        for _ in range(self._consumer.buffered):
            request = await self._consumer.receive()
            if request.redelivered != requests[0].redelivered:
                self._held = request
                break
            requests.append(request)
        return requests

    async def reply(self, bodies: Sequence[bytes], *, wait: bool) -> None:
        sends = []
        try:
            for body, (to, correlation_id) in zip(bodies, self._reply_addresses, strict=True):
                producer = self._producers.get(to)
                if producer is None:
                    producer = self._producers[to] = await self._session.producer(to)
                if self._persistent or wait:
                    payload = producer.encoder.message(body, {"correlation_id": correlation_id}, None)
                    sends.append(producer.send_batch(payload, persistent=self._persistent, confirm=wait))
                else:
                    # It leaves with the acknowledgement of its request.
                    await producer.send(body, correlation_id=correlation_id)
            if len(sends) == 1:
                await sends[0]
            elif sends:
                await asyncio.gather(*sends)
        except MessagingError as error:
            raise DriverError(str(error)) from error

    async def close(self) -> None:
        with translated():
            for producer in self._producers.values():
                await producer.close()
            await self._consumer.close()


def _reply_address(request: Message) -> tuple[str, str]:
    to, correlation_id = request.reply_to, request.correlation_id
    if not to or not correlation_id:
        raise DriverError("a request has no reply address or no correlation id")
    return to, correlation_id
