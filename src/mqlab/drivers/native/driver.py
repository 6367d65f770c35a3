"""The driver of the embedded broker's native protocol, on its client library.

Messages travel message by message through the plain API; packed ones through the batch API.
"""

import pyarrow as pa

from mqlab.client import aio, producer
from mqlab.drivers import api
from mqlab.drivers.common.timeouts import ANSWER_TIMEOUT_S
from mqlab.drivers.native.links import NativeReceiver, NativeSender, column_of, translated
from mqlab.drivers.native.request_reply import NativeRequester, NativeResponder
from mqlab.wire.native.columns import encode_columns

_PRELOAD_BATCH = 1000


class NativeDriver(api.Driver):
    # A frame of the client library, which coalesces the messages of one call.
    max_send_bytes = producer.MAX_BYTES
    max_send_messages = producer.MAX_ROWS
    has_batches = True
    frame_each = False

    async def connect(self, application: str = "") -> api.DriverConnection:
        with translated():
            return NativeConnection(
                await aio.connect(self.address, application=application, keepalive=ANSWER_TIMEOUT_S)
            )


class NativeConnection(api.DriverConnection):
    def __init__(self, connection: aio.Connection) -> None:
        self._connection = connection

    async def sender(self, destination: str, *, persistent: bool, transacted: bool) -> api.Sender:
        with translated():
            session = await self._connection.session("transacted" if transacted else "auto")
            return NativeSender(session, await session.producer(destination), persistent)

    async def receiver(self, destination: str, options: api.ReceiverOptions) -> api.Receiver:
        with translated():
            session = await self._connection.session(options.acknowledge)
            consumer = await session.consumer(
                destination, prefetch=options.prefetch, selector=options.selector, durable=options.durable
            )
            return NativeReceiver(session, consumer, packed=options.packed)

    async def requester(self, destination: str, reply_to: str, *, persistent: bool) -> api.DriverRequester:
        with translated():
            session = await self._connection.session()
            return NativeRequester(await session.requester(destination, reply_to=reply_to, persistent=persistent))

    async def responder(self, destination: str, *, prefetch: int, persistent: bool) -> api.Responder:
        with translated():
            session = await self._connection.session()
            return NativeResponder(session, await session.consumer(destination, prefetch=prefetch), persistent)

    async def subscribe(self, topic: str, options: api.ReceiverOptions) -> None:
        # A prefetch of 0, so that the broker delivers no message now.
        await (await self.receiver(topic, api.ReceiverOptions(0, "auto", options.selector, options.durable))).close()

    async def unsubscribe(self, durable: str) -> None:
        with translated():
            await self._connection.unsubscribe(durable)

    async def preload(self, queue: str, bodies: api.Matrix, *, persistent: bool) -> None:
        with translated():
            producer = await (await self._connection.session()).producer(queue)
            for first in range(0, len(bodies), _PRELOAD_BATCH):
                rows = bodies[first : first + _PRELOAD_BATCH]
                ids = pa.array([f"preload-{number}" for number in range(first, first + len(rows))])
                payload = encode_columns(column_of(rows), {"correlation_id": ids})
                await producer.send_batch(payload, persistent=persistent, confirm=persistent)
            await producer.close()

    async def close(self) -> None:
        # Senders flush when they are closed. One that the system holds back cannot, and must not delay the end.
        with translated():
            await self._connection.drop()
