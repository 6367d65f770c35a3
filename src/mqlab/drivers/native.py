"""The native protocol of the embedded broker, through the batch API of its client library."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mqlab.client import aio
from mqlab.client.errors import MessagingError
from mqlab.drivers.base import Arrival, Connection, Driver, DriverError, Matrix, Receiver, Sender
from mqlab.wire.bodies import MalformedPayloadError, encode_equal


@asynccontextmanager
async def _translated() -> AsyncIterator[None]:
    try:
        yield
    except (MessagingError, MalformedPayloadError, OSError) as error:
        raise DriverError(str(error)) from error


class NativeDriver(Driver):
    async def connect(self) -> Connection:
        async with _translated():
            return _Connection(await aio.connect(self.address))


class _Connection(Connection):
    def __init__(self, connection: aio.Connection) -> None:
        self._connection = connection

    async def sender(self, destination: str, *, persistent: bool, transacted: bool) -> Sender:
        async with _translated():
            session = await self._connection.session("transacted" if transacted else "auto")
            return _Sender(session, await session.producer(destination), persistent)

    async def receiver(self, destination: str, *, prefetch: int, transacted: bool) -> Receiver:
        async with _translated():
            session = await self._connection.session("transacted" if transacted else "auto")
            return _Receiver(session, await session.consumer(destination, prefetch=prefetch))

    async def close(self) -> None:
        async with _translated():
            await self._connection.close()


class _Sender(Sender):
    def __init__(self, session: aio.Session, producer: aio.Producer, persistent: bool) -> None:
        self._session = session
        self._producer = producer
        self._persistent = persistent

    async def send(self, bodies: Matrix, *, wait: bool) -> None:
        payload = encode_equal(bodies.reshape(-1), len(bodies))
        try:
            await self._producer.send_batch(payload, persistent=self._persistent, confirm=wait)
        except MessagingError as error:
            raise DriverError(str(error)) from error

    async def commit(self) -> None:
        async with _translated():
            await self._session.commit()

    async def close(self) -> None:
        async with _translated():
            await self._producer.close()


class _Receiver(Receiver):
    def __init__(self, session: aio.Session, consumer: aio.Consumer) -> None:
        self._session = session
        self._consumer = consumer

    async def receive(self) -> Arrival:
        try:
            delivery = await self._consumer.receive_batch()
            return Arrival(delivery.bodies(), delivery.redelivered)
        except (MessagingError, MalformedPayloadError) as error:
            raise DriverError(str(error)) from error

    async def commit(self) -> None:
        async with _translated():
            await self._session.commit()

    async def close(self) -> None:
        async with _translated():
            await self._consumer.close()
