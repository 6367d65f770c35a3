"""Links of the native driver: sender and receiver."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from mqlab.client import aio
from mqlab.client.errors import MessagingError
from mqlab.drivers.api import DriverError, Matrix, Properties, ReceivedBatch, Receiver, Sender
from mqlab.wire.native.bodies import BINARY, MalformedPayloadError, Payload, encode_equal
from mqlab.wire.native.columns import PROPERTY, encode_columns, encode_single

# Type letters of properties in the encoding of a single message.
_LETTERS = {np.dtype(np.int64): "q", np.dtype(np.int32): "i"}


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

    async def send(self, bodies: Matrix, *, wait: bool, properties: Properties | None = None) -> None:
        if properties is None:
            payload = encode_equal(bodies.reshape(-1), len(bodies))
        else:
            payload = _with_properties(bodies, properties)
        try:
            await self._producer.send_batch(payload, persistent=self._persistent, confirm=wait)
        except MessagingError as error:
            raise DriverError(str(error)) from error


class NativeReceiver(_NativeLink, Receiver):
    def __init__(self, session: aio.Session, consumer: aio.Consumer) -> None:
        super().__init__(session, consumer)
        self._consumer = consumer
        self._acknowledges = session.acknowledge_mode == "client"

    async def receive(self) -> ReceivedBatch:
        try:
            if self._acknowledges:
                self._session.acknowledge()
            delivery = await self._consumer.receive_batch()
            return ReceivedBatch(delivery.bodies(), delivery.redelivered)
        except (MessagingError, MalformedPayloadError) as error:
            raise DriverError(str(error)) from error


def _with_properties(bodies: Matrix, properties: Properties) -> Payload:
    if len(bodies) > 1:
        columns = {PROPERTY + name: pa.array(values) for name, values in properties.items()}
        return encode_columns(column_of(bodies), columns)
    names = tuple(PROPERTY + name for name in properties)
    letters = "".join(_LETTERS[values.dtype] for values in properties.values())
    return encode_single(bodies.tobytes(), names, letters, [values.item(0) for values in properties.values()])


def column_of(bodies: Matrix) -> pa.Array:
    """Return the rows of a matrix as a column, without a copy."""
    rows, size = bodies.shape
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(size)
    data = np.ascontiguousarray(bodies).reshape(-1)
    return pa.Array.from_buffers(BINARY, rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
