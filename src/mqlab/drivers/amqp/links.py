"""Links of the AMQP 0-9-1 driver: sender and receiver."""

from collections.abc import Callable, Mapping
from typing import Final

from mqlab.drivers.amqp.client import AmqpChannel
from mqlab.drivers.api import Acknowledge, Matrix, MessageHeaders, Properties, ReceivedBatch, Receiver, Sender
from mqlab.drivers.common.message_rows import expires_ms, message_rows
from mqlab.drivers.common.received_batch import join_runs
from mqlab.wire.amqp.content import AmqpPublisher

LACKS: Final[Mapping[str, str]] = {"keys": "AMQP 0-9-1 has no message groups"}

# Bytes of one write: a batch of large messages takes several.
_WRITE_BYTES: Final = 256 * 1024
# dups_ok: a receiver acknowledges when this share of its prefetch is unacknowledged.
_MAX_DELAYED_SHARE: Final = 0.5


class AmqpSender(Sender):
    """Persistent messages are always confirmed, even if the role does not wait: `close` then means that the system has
    all of them."""

    def __init__(self, channel: AmqpChannel, publishing: AmqpPublisher, *, transacted: bool) -> None:
        self._channel = channel
        self._publishing = publishing
        self._transacted = transacted

    async def send(
        self, bodies: Matrix, *, wait: bool, properties: Properties | None = None, headers: MessageHeaders | None = None
    ) -> None:
        encode: Callable[[Matrix], bytes] = self._publishing.batch
        if properties is not None or headers is not None:
            encode = self._encoder(len(bodies), properties, headers)
        if wait:
            await self._channel.enable_confirms()
        rows = max(1, _WRITE_BYTES // self._publishing.row_size(bodies.shape[1]))
        for first in range(0, len(bodies), rows):
            part = bodies[first : first + rows]
            await self._channel.publish(encode(part), len(part))
        if wait:
            await self._channel.wait_confirmed()

    def _encoder(
        self, count: int, properties: Properties | None, headers: MessageHeaders | None
    ) -> Callable[[Matrix], bytes]:
        """Encodes the next messages of a batch, each with its properties and headers."""
        if headers is not None:
            headers.check(LACKS)
        rows, expires = iter(message_rows(count, properties, headers)), expires_ms(headers)

        def encode(bodies: Matrix) -> bytes:
            return b"".join([
                self._publishing.message(
                    body.tobytes(), headers=row.properties, priority=row.priority, expires_ms=expires
                )
                for body, row in zip(bodies, rows, strict=False)
            ])  # fmt: skip

        return encode

    async def wait_accepted(self, max_pending: int) -> None:
        await self._channel.wait_accepted(max_pending)

    async def commit(self) -> None:
        await self._channel.call("tx.commit")

    async def close(self) -> None:
        if not self._transacted:
            await self._channel.wait_confirmed()
        await self._channel.close()


class AmqpReceiver(Receiver):
    def __init__(self, channel: AmqpChannel, acknowledge: Acknowledge, prefetch: int) -> None:
        self._channel = channel
        self._acknowledge = acknowledge
        self._unacknowledged = 0
        self._ack_delay = int(prefetch * _MAX_DELAYED_SHARE) if acknowledge == "dups_ok" else 0
        self._last_tag = 0

    async def receive(self) -> ReceivedBatch:
        if self._acknowledge != "transacted" and self._unacknowledged > self._ack_delay:
            self._acknowledge_all()
        runs, self._last_tag = await self._channel.receive()
        batch = join_runs(runs)
        self._unacknowledged += len(batch.bodies)
        return batch

    async def commit(self) -> None:
        if self._unacknowledged:
            self._acknowledge_all()
        await self._channel.call("tx.commit")

    async def close(self) -> None:
        # In the modes client and transacted, only `receive` or `commit` acknowledges.
        if self._unacknowledged and self._acknowledge in ("auto", "dups_ok") and self._channel.failed is None:
            self._acknowledge_all()
        await self._channel.close()

    def _acknowledge_all(self) -> None:
        self._channel.send_method("basic.ack", self._last_tag, True)
        self._unacknowledged = 0
