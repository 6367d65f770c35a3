"""Request/reply over the native protocol: the client library matches replies by their correlation ids."""

from collections.abc import Sequence

import pyarrow as pa

from mqlab.client import aio
from mqlab.client.errors import MessagingError
from mqlab.drivers.api import DriverError, DriverRequester, ReceivedBatch, Reply, Responder
from mqlab.drivers.common.timeouts import BLOCKED_TIMEOUT_S, NO_REPLY
from mqlab.drivers.native.links import translated
from mqlab.wire.native.bodies import BINARY, SINGLE, Bodies, Buffer, MalformedPayloadError, Payload
from mqlab.wire.native.columns import decode_single, encode_columns
from mqlab.wire.templates import MessageTemplate

# Headers of the lab's requests and replies.
_REQUEST = ("correlation_id", "reply_to")


_REPLY = MessageTemplate(("correlation_id",))


# Up to so many replies are faster one by one than as a batch, unless the responder waits for each.
_MAX_SINGLE_REPLIES = 16


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
    def __init__(self, session: aio.Session, consumer: aio.Consumer, persistent: bool) -> None:
        self._session = session
        self._consumer = consumer
        self._persistent = persistent
        self._producers: dict[str, aio.Producer] = {}
        # The reply address and correlation id of each request of the last batch.
        self._reply_addresses: list[tuple[str, str]] = []
        # The reply address of the last request that was decoded in full, and a template for requests like it.
        self._to = ""
        self._template: MessageTemplate | None = None

    async def receive(self) -> ReceivedBatch:
        try:
            delivery = await self._consumer.receive_batch()
            bodies, self._reply_addresses = self._decode([delivery, *self._consumer.take_following(delivery)])
        except (MessagingError, MalformedPayloadError) as error:
            raise DriverError(str(error)) from error
        return ReceivedBatch(bodies, delivery.redelivered)

    async def reply(self, bodies: Sequence[bytes], *, wait: bool) -> None:
        try:
            confirmed = self._persistent or wait
            if len(bodies) == 1 or (len(bodies) <= _MAX_SINGLE_REPLIES and not confirmed):
                for body, (to, correlation_id) in zip(bodies, self._reply_addresses, strict=True):
                    payload = _REPLY.message(correlation_id, body)
                    producer = self._producers.get(to)
                    if confirmed or producer is None or not producer.try_send_batch(payload):
                        await self._send(to, payload, wait)
                return
            rows_by_queue: dict[str, list[int]] = {}
            for row, (to, _) in enumerate(self._reply_addresses):
                rows_by_queue.setdefault(to, []).append(row)
            for to, rows in rows_by_queue.items():
                ids = pa.array([self._reply_addresses[row][1] for row in rows])
                column = pa.array([bodies[row] for row in rows], BINARY)
                await self._send(to, encode_columns(column, {"correlation_id": ids}), wait)
        except MessagingError as error:
            raise DriverError(str(error)) from error

    async def close(self) -> None:
        with translated():
            for producer in self._producers.values():
                await producer.close()
            await self._consumer.close()

    def _decode(self, deliveries: Sequence[aio.Delivery]) -> tuple[Bodies, list[tuple[str, str]]]:
        """Decode the bodies of requests, and the reply address and correlation id of each."""
        bodies: list[Buffer] = []
        addresses: list[tuple[str, str]] = []
        for delivery in deliveries:
            payload = delivery.payload
            known = None if self._template is None else self._template.parts(payload)
            if known is not None:
                correlation_id, body = known
                bodies.append(body)
                addresses.append((self._to, correlation_id))
            elif payload.form & SINGLE:
                single = decode_single(payload)
                bodies.append(single.body)
                addresses += _check_addresses([(single.values.get("reply_to"), single.values.get("correlation_id"))])
                if (*single.values,) == _REQUEST:
                    self._to = addresses[-1][0]
                    self._template = MessageTemplate(_REQUEST, (self._to,))
            else:
                bodies += delivery.bodies().tolist()
                columns = (delivery.column("reply_to"), delivery.column("correlation_id"))
                lists = [[None] * delivery.rows if column is None else column.to_pylist() for column in columns]
                addresses += _check_addresses([*zip(*lists, strict=True)])
        return Bodies.of(bodies), addresses

    async def _send(self, to: str, payload: Payload, wait: bool) -> None:
        producer = self._producers.get(to)
        if producer is None:
            producer = self._producers[to] = await self._session.producer(to)
        await producer.send_batch(payload, persistent=self._persistent, confirm=wait)


def _check_addresses(headers: Sequence[tuple[str | None, str | None]]) -> list[tuple[str, str]]:
    addresses = [(to, correlation_id) for to, correlation_id in headers if to and correlation_id]
    if len(addresses) < len(headers):
        raise DriverError("a request has no reply address or no correlation id")
    return addresses
