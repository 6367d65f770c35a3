"""What a role holds of an AMQP 0-9-1 channel: the ends that send and receive, and both for request and reply."""

from collections.abc import Sequence
from typing import Final

from mqlab.drivers.amqp.client import AmqpChannel
from mqlab.drivers.api import (
    Acknowledge,
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
from mqlab.drivers.common.received_batch import join_runs
from mqlab.wire.amqp import AmqpPublisher, method, reply_properties

# Bytes of one write: a batch of large messages takes several.
_WRITE_BYTES: Final = 256 * 1024
# Of the messages a consumer has room for, it owes the system at most this part's acknowledgement when it is lazy.
_MAX_DELAYED_SHARE: Final = 0.5


class AmqpSender(Sender):
    """`publishing` goes through the channel. A persistent sender is confirmed even where nobody waits for it: only
    then does the end of its work mean that the system has it."""

    def __init__(self, channel: AmqpChannel, publishing: AmqpPublisher, *, transacted: bool) -> None:
        self._channel = channel
        self._publishing = publishing
        self._transacted = transacted

    async def send(self, bodies: Matrix, *, wait: bool, properties: Properties | None = None) -> None:
        if properties is not None:
            raise DriverError("properties are for selectors, and RabbitMQ has none")
        if wait:
            await self._channel.enable_confirms()
        rows = max(1, _WRITE_BYTES // self._publishing.row_size(bodies.shape[1]))
        for first in range(0, len(bodies), rows):
            some = bodies[first : first + rows]
            await self._channel.publish(self._publishing.batch(some), len(some))
        if wait:
            await self._channel.wait_confirmed()

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
        # What was handed out is done, unless somebody has yet to say so.
        if self._unacknowledged and self._acknowledge in ("auto", "dups_ok") and self._channel.failed is None:
            self._acknowledge_all()
        await self._channel.close()

    def _acknowledge_all(self) -> None:
        self._channel.send_method("basic.ack", self._last_tag, True)
        self._unacknowledged = 0


class AmqpRequester(Requester):
    """Has a queue of its own for its replies; `acknowledges` those that the system keeps until then."""

    def __init__(self, channel: AmqpChannel, publishing: AmqpPublisher, reply_to: str, *, acknowledges: bool) -> None:
        self._channel = channel
        self._publishing = publishing
        self._reply_to = reply_to
        self._acknowledges = acknowledges

    async def request(self, body: bytes, correlation_id: str) -> Reply:
        channel = self._channel
        await channel.publish(self._publishing.message(body, correlation_id, self._reply_to), 1)
        while True:
            runs, tag = await channel.receive(is_reply=True)
            if self._acknowledges:
                channel.send_method("basic.ack", tag, True)
            for run in runs:
                # Any other reply is late: its request has failed.
                if reply_properties(run.properties).correlation_id == correlation_id:
                    return Reply(run.data, run.redelivered)

    async def close(self) -> None:
        if self._channel.failed is None:
            self._channel.deleting_queue = True
            await self._channel.call("queue.delete", 0, self._reply_to, False, False, False)
        await self._channel.close()


class AmqpResponder(Responder):
    def __init__(self, channel: AmqpChannel, *, persistent: bool) -> None:
        self._channel = channel
        self._persistent = persistent
        self._publishing: dict[str, AmqpPublisher] = {}
        # The reply address and correlation id of each request of the last batch.
        self._reply_addresses: list[tuple[str, str]] = []
        self._last_tag = 0

    async def receive(self) -> ReceivedBatch:
        if self._last_tag:
            self._channel.send_method("basic.ack", self._last_tag, True)
            self._last_tag = 0
        runs, self._last_tag = await self._channel.receive()
        self._reply_addresses = []
        for run in runs:
            correlation_id, reply_to = reply_properties(run.properties)
            if not reply_to or not correlation_id:
                raise DriverError("a request has no reply address or no correlation id")
            self._reply_addresses += [(reply_to, correlation_id)] * run.rows
        return join_runs(runs)

    async def reply(self, bodies: Sequence[bytes], *, wait: bool) -> None:
        if wait:
            await self._channel.enable_confirms()
        frames = [
            self._to(reply_to).message(body, correlation_id)
            for body, (reply_to, correlation_id) in zip(bodies, self._reply_addresses, strict=True)
        ]
        done = b""
        if not wait and self._last_tag:
            # With nothing to wait for, the requests are done once their replies are on the same way before them.
            done = method(self._channel.number, "basic.ack", self._last_tag, True)
            self._last_tag = 0
        await self._channel.publish(b"".join((*frames, done)), len(frames))
        if wait:
            await self._channel.wait_confirmed()

    async def close(self) -> None:
        if self._channel.failed is None and self._last_tag:
            self._channel.send_method("basic.ack", self._last_tag, True)
        await self._channel.wait_confirmed()
        await self._channel.close()

    def _to(self, reply_to: str) -> AmqpPublisher:
        publishing = self._publishing.get(reply_to)
        if publishing is None:
            channel = self._channel
            publishing = self._publishing[reply_to] = AmqpPublisher(
                channel.number, "", reply_to, persistent=self._persistent, frame_max=channel.client.frame_max
            )
        return publishing
