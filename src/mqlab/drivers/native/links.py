"""Links of the native driver: sender and receiver."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Final

import numpy as np
import pyarrow as pa

from mqlab.client import aio
from mqlab.client.errors import MessagingError
from mqlab.client.headers import Headers, Int
from mqlab.drivers.api import (
    DriverError,
    Integers,
    Matrix,
    MessageHeaders,
    Properties,
    ReceivedBatch,
    Receiver,
    Sender,
    Texts,
)
from mqlab.wire.native.bodies import BINARY, Bodies, MalformedPayloadError, encode_equal
from mqlab.wire.native.columns import PROPERTY, encode_columns

# Messages that one call of the driver returns at most: its time holds for all of them.
_MAX_RECEIVED: Final = 4096
_NO_HEADERS: Final = Headers()


@contextmanager
def translated() -> Iterator[None]:
    """Translate errors of the client library to DriverError."""
    try:
        yield
    except (MessagingError, MalformedPayloadError, OSError) as error:
        raise DriverError(str(error)) from error


class _NativeLink:
    def __init__(self, session: aio.Session, link: aio.Producer | aio.Consumer) -> None:
        self._session = session
        self._link = link

    async def commit(self) -> None:
        with translated():
            await self._session.commit()

    async def close(self) -> None:
        with translated():
            await self._link.close()


class NativeSender(_NativeLink, Sender):
    def __init__(self, session: aio.Session, producer: aio.Producer, persistent: bool) -> None:
        super().__init__(session, producer)
        self._producer = producer
        self._persistent = persistent
        self.frames: int = 0

    async def send(
        self, bodies: Matrix, *, wait: bool, properties: Properties | None = None, headers: MessageHeaders | None = None
    ) -> None:
        """Messages have ids and timestamps, as those of any application."""
        messages: list[bytes] = column_of(bodies).tolist()
        try:
            if self._persistent or wait or properties is not None or headers is not None:
                await self._send_singles(messages, wait, properties, headers)
            else:
                send = self._producer.send
                for body in messages:
                    await send(body)
                # The library has coalesced them: they leave at this turn of the loop, if the socket takes them.
                await asyncio.sleep(0)
        except MessagingError as error:
            raise DriverError(str(error)) from error
        self.frames = self._producer.frames

    async def send_packed(self, bodies: Matrix, *, wait: bool, properties: Properties | None = None) -> None:
        if properties is None:
            payload = encode_equal(bodies.reshape(-1), len(bodies))
        else:
            columns = {PROPERTY + name: pa.array(values) for name, values in properties.items()}
            payload = encode_columns(column_of(bodies), columns)
        try:
            await self._producer.send_batch(payload, persistent=self._persistent, confirm=wait)
        except MessagingError as error:
            raise DriverError(str(error)) from error
        self.frames = self._producer.frames

    async def close(self) -> None:
        await super().close()
        self.frames = self._producer.frames

    async def _send_singles(
        self, messages: list[bytes], wait: bool, properties: Properties | None, headers: MessageHeaders | None
    ) -> None:
        """One frame each. The plain `send` always confirms a persistent message, and no other."""
        sends = []
        of_rows = [_NO_HEADERS] * len(messages) if headers is None else _headers_of_rows(headers, len(messages))
        for row, body in enumerate(messages):
            values = {name: _typed(values, row) for name, values in (properties or {}).items()}
            payload = self._producer.encoder.message(body, of_rows[row], values)
            send = self._producer.send_batch(payload, persistent=self._persistent, confirm=wait)
            if wait:
                sends.append(send)
            else:
                await send
        if len(sends) == 1:
            await sends[0]
        elif sends:
            await asyncio.gather(*sends)


class NativeReceiver(_NativeLink, Receiver):
    def __init__(self, session: aio.Session, consumer: aio.Consumer, *, packed: bool = False) -> None:
        super().__init__(session, consumer)
        self._consumer = consumer
        self._acknowledges = session.acknowledge_mode == "client"
        self._packed = packed
        # A transaction ends after its last message.
        self._max_messages = 1 if session.transacted else _MAX_RECEIVED
        self._source: aio.Delivery | None = None
        self.frames: int = 0

    async def receive(self) -> ReceivedBatch:
        try:
            if self._acknowledges:
                self._session.acknowledge()
            if self._packed:
                delivery = await self._consumer.receive_batch()
                self.frames += 1
                return ReceivedBatch(delivery.bodies(), delivery.redelivered)
            return await self._receive_singles()
        except (MessagingError, MalformedPayloadError) as error:
            raise DriverError(str(error)) from error

    async def _receive_singles(self) -> ReceivedBatch:
        """The next message, and those that came in the same frame and are ready: no call waits for them."""
        message = await self._consumer.receive()
        if message.source is not self._source:
            self._source = message.source
            self.frames += 1
        bodies = [message.body]
        more = min(len(self._consumer.unread), self._max_messages - 1)
        bodies += islice(self._consumer.ready_bodies(), more)
        return ReceivedBatch(Bodies.of(bodies), message.redelivered)


def _typed(values: Integers | Texts, row: int) -> int | str:
    """A value of the client library's type for the column."""
    value: int | str = values.item(row)
    return value if isinstance(value, str) or values.dtype == np.int64 else Int(value)


def _headers_of_rows(headers: MessageHeaders, rows: int) -> list[Headers]:
    common = Headers() if headers.expires_s is None else Headers(time_to_live=max(1, round(headers.expires_s * 1000)))
    of_rows = [common.copy() for _ in range(rows)]
    if headers.priority is not None:
        for row, priority in zip(of_rows, headers.priority.tolist(), strict=True):
            row["priority"] = priority
    if headers.key is not None:
        for row, key in zip(of_rows, headers.key.tolist(), strict=True):
            row["group"] = key
    return of_rows


def column_of(bodies: Matrix) -> pa.Array:
    """Return the rows of a matrix as a column, without a copy."""
    rows, size = bodies.shape
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(size)
    data = np.ascontiguousarray(bodies).reshape(-1)
    return pa.Array.from_buffers(BINARY, rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
