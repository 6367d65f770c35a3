"""What a role holds of a native session: the sending and receiving ends, and both together for request and reply."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from mqlab.client import aio
from mqlab.client.errors import MessagingError
from mqlab.drivers.api import (
    DriverError,
    Matrix,
    Properties,
    ReceivedBatch,
    Receiver,
    Reply,
    Requester,
    Responder,
    Sender,
)
from mqlab.drivers.common.timeouts import BLOCKED_TIMEOUT_S, NO_REPLY
from mqlab.wire.native.bodies import BINARY, SINGLE, Bodies, Buffer, MalformedPayloadError, Payload, encode_equal
from mqlab.wire.native.columns import PROPERTY, decode_single, encode_columns, encode_single
from mqlab.wire.templates import MessageTemplate

# What requests and replies of the lab have beside their bodies.
_REQUEST = ("correlation_id", "reply_to")
_REPLY = MessageTemplate(("correlation_id",))
# So many replies are sent one by one sooner than as a batch, unless each is waited for.
_FEW = 16
# Types of properties, as a single message writes them.
_LETTERS = {np.dtype(np.int64): "q", np.dtype(np.int32): "i"}


@contextmanager
def translated() -> Iterator[None]:
    """Errors of the client library as those of a driver."""
    try:
        yield
    except (MessagingError, MalformedPayloadError, OSError) as error:
        raise DriverError(str(error)) from error


class NativeSender(Sender):
    def __init__(self, session: aio.Session, producer: aio.Producer, persistent: bool) -> None:
        self._session = session
        self._producer = producer
        self._persistent = persistent

    async def send(self, bodies: Matrix, *, wait: bool, properties: Properties | None = None) -> None:
        if properties is None:
            payload = encode_equal(bodies.reshape(-1), len(bodies))
        else:
            payload = _with_properties(bodies, properties)
        try:
            await self._producer.send_batch(payload, persistent=self._persistent, confirm=wait)
        except MessagingError as error:
            raise DriverError(str(error)) from error

    async def commit(self) -> None:
        with translated():
            await self._session.commit()

    async def close(self) -> None:
        with translated():
            await self._producer.close()


class NativeReceiver(Receiver):
    def __init__(self, session: aio.Session, consumer: aio.Consumer) -> None:
        self._session = session
        self._consumer = consumer
        self._says_done = session.acknowledge_mode == "client"

    async def receive(self) -> ReceivedBatch:
        try:
            if self._says_done:
                self._session.acknowledge()
            delivery = await self._consumer.receive_batch()
            return ReceivedBatch(delivery.bodies(), delivery.redelivered)
        except (MessagingError, MalformedPayloadError) as error:
            raise DriverError(str(error)) from error

    async def commit(self) -> None:
        with translated():
            await self._session.commit()

    async def close(self) -> None:
        with translated():
            await self._consumer.close()


class NativeRequester(Requester):
    def __init__(self, requester: aio.Requester) -> None:
        self._requester = requester

    async def request(self, body: bytes, correlation_id: str) -> Reply:
        try:
            message = await self._requester.request(body, BLOCKED_TIMEOUT_S, correlation_id=correlation_id)
            if message.correlation_id != correlation_id:
                raise DriverError(f"the reply to {correlation_id} is one to {message.correlation_id}")
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
        self._wanted: list[tuple[str, str]] = []
        # Of the last request that had to be taken apart: where its reply goes, and what others like it look like.
        self._to = ""
        self._form: MessageTemplate | None = None

    async def receive(self) -> ReceivedBatch:
        try:
            delivery = await self._consumer.receive_batch()
            bodies, self._wanted = self._taken_apart([delivery, *self._consumer.take_following(delivery)])
        except (MessagingError, MalformedPayloadError) as error:
            raise DriverError(str(error)) from error
        return ReceivedBatch(bodies, delivery.redelivered)

    async def reply(self, bodies: Sequence[bytes], *, wait: bool) -> None:
        try:
            waits = self._persistent or wait
            if len(bodies) == 1 or (len(bodies) <= _FEW and not waits):
                for body, (to, correlation_id) in zip(bodies, self._wanted, strict=True):
                    payload = _REPLY.message(correlation_id, body)
                    producer = self._producers.get(to)
                    if waits or producer is None or not producer.try_send_batch(payload):
                        await self._send(to, payload, wait)
                return
            rows_by_queue: dict[str, list[int]] = {}
            for row, (to, _) in enumerate(self._wanted):
                rows_by_queue.setdefault(to, []).append(row)
            for to, rows in rows_by_queue.items():
                ids = pa.array([self._wanted[row][1] for row in rows])
                some = pa.array([bodies[row] for row in rows], BINARY)
                await self._send(to, encode_columns(some, {"correlation_id": ids}), wait)
        except MessagingError as error:
            raise DriverError(str(error)) from error

    async def close(self) -> None:
        with translated():
            for producer in self._producers.values():
                await producer.close()
            await self._consumer.close()

    def _taken_apart(self, deliveries: Sequence[aio.Delivery]) -> tuple[Bodies, list[tuple[str, str]]]:
        """The bodies of requests, and where and as what each wants its reply."""
        bodies: list[Buffer] = []
        wanted: list[tuple[str, str]] = []
        for delivery in deliveries:
            payload = delivery.payload
            known = None if self._form is None else self._form.parts(payload)
            if known is not None:
                correlation_id, body = known
                bodies.append(body)
                wanted.append((self._to, correlation_id))
            elif payload.form & SINGLE:
                single = decode_single(payload)
                bodies.append(single.body)
                wanted += _asked([(single.values.get("reply_to"), single.values.get("correlation_id"))])
                if (*single.values,) == _REQUEST:
                    self._to = wanted[-1][0]
                    self._form = MessageTemplate(_REQUEST, (self._to,))
            else:
                bodies += delivery.bodies().tolist()
                columns = (delivery.column("reply_to"), delivery.column("correlation_id"))
                lists = [[None] * delivery.rows if column is None else column.to_pylist() for column in columns]
                wanted += _asked([*zip(*lists, strict=True)])
        return Bodies.of(bodies), wanted

    async def _send(self, to: str, payload: Payload, wait: bool) -> None:
        producer = self._producers.get(to)
        if producer is None:
            producer = self._producers[to] = await self._session.producer(to)
        await producer.send_batch(payload, persistent=self._persistent, confirm=wait)


def _asked(said: Sequence[tuple[str | None, str | None]]) -> list[tuple[str, str]]:
    found = [(to, number) for to, number in said if to and number]
    if len(found) < len(said):
        raise DriverError("a request has no reply address or no correlation id")
    return found


def _with_properties(bodies: Matrix, properties: Properties) -> Payload:
    if len(bodies) > 1:
        columns = {PROPERTY + name: pa.array(values) for name, values in properties.items()}
        return encode_columns(column_of(bodies), columns)
    names = tuple(PROPERTY + name for name in properties)
    letters = "".join(_LETTERS[values.dtype] for values in properties.values())
    return encode_single(bodies.tobytes(), names, letters, [values.item(0) for values in properties.values()])


def column_of(bodies: Matrix) -> pa.Array:
    """The rows of a matrix as a column, without touching any."""
    rows, size = bodies.shape
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(size)
    data = np.ascontiguousarray(bodies).reshape(-1)
    return pa.Array.from_buffers(BINARY, rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
