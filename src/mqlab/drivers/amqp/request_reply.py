"""Request/reply over AMQP 0-9-1: each requester has its own reply queue."""

from collections.abc import Sequence

from mqlab.drivers.amqp.client import AmqpChannel
from mqlab.drivers.api import DriverError, DriverRequester, OnReply, Reply, RequestBatch
from mqlab.drivers.common.pending_reply import PendingReply
from mqlab.drivers.common.received_batch import bodies_of_runs
from mqlab.drivers.common.responding import CallbackResponder
from mqlab.wire.amqp.content import AmqpPublisher, reply_properties
from mqlab.wire.amqp.methods import method


class AmqpRequester(DriverRequester):
    """Has its own reply queue; `acknowledges` the replies of a durable one."""

    def __init__(self, channel: AmqpChannel, publishing: AmqpPublisher, reply_to: str, *, acknowledges: bool) -> None:
        self._channel = channel
        self._publishing = publishing
        self._reply_to = reply_to
        self._acknowledges = acknowledges
        self._pending = PendingReply()
        channel.on_arrival = self._arrived

    def ask(self, body: bytes, correlation_id: str, on_reply: OnReply) -> None:
        self._pending.expect(correlation_id, on_reply)
        try:
            self._channel.publish_now(self._publishing.message(body, correlation_id, self._reply_to), 1)
        except DriverError as error:
            self._pending.fail(error)

    def _arrived(self) -> None:
        channel, pending = self._channel, self._pending
        try:
            while runs := channel.take_arrived():
                if self._acknowledges:
                    channel.send_method("basic.ack", runs[-1].last_tag, True)
                for run in runs:
                    # Any other reply is late: its request has failed.
                    if reply_properties(run.properties).correlation_id == pending.correlation_id:
                        pending.settle(Reply(run.data, run.redelivered))
        except DriverError as error:
            pending.settle(error)

    def stop(self) -> None:
        self._pending.stop()

    async def close(self) -> None:
        self.stop()
        if self._channel.failed is None:
            self._channel.deleting_queue = True
            await self._channel.call("queue.delete", 0, self._reply_to, False, False, False)
        await self._channel.close()


class AmqpResponder(CallbackResponder):
    """The system confirms what is published over the channel, if replies are persistent."""

    def __init__(self, channel: AmqpChannel, *, persistent: bool) -> None:
        super().__init__(persistent=persistent)
        self._channel = channel
        channel.on_arrival = self.arrived
        self._publishing: dict[str, AmqpPublisher] = {}
        # The reply address and correlation id of each request of the last batch.
        self._reply_addresses: list[tuple[str, str]] = []
        self._last_tag = 0

    def take_requests(self) -> RequestBatch | None:
        runs = self._channel.take_arrived()
        if not runs:
            return None
        self._last_tag = runs[-1].last_tag
        self._reply_addresses = []
        for run in runs:
            correlation_id, reply_to = reply_properties(run.properties)
            if not reply_to or not correlation_id:
                raise DriverError("a request has no reply address or no correlation id")
            self._reply_addresses += [(reply_to, correlation_id)] * run.rows
        return RequestBatch(bodies_of_runs(runs), runs[0].redelivered)

    def send_replies(self, bodies: Sequence[bytes]) -> bool:
        frames = [
            self._to(reply_to).message(body, correlation_id)
            for body, (reply_to, correlation_id) in zip(bodies, self._reply_addresses, strict=True)
        ]
        done = b""
        if not self._persistent:
            # The system reads the acknowledgement after the replies, so one write is enough for both.
            done = method(self._channel.number, "basic.ack", self._last_tag, True)
            self._last_tag = 0
        self._channel.publish_now(b"".join((*frames, done)), len(frames))
        return not self._persistent and not self._channel.client.is_held_back

    async def wait_sent(self) -> None:
        await self._channel.client.wait_writable()
        if self._persistent:
            await self._channel.wait_confirmed()
            self._channel.send_method("basic.ack", self._last_tag, True)
            self._last_tag = 0

    async def close(self) -> None:
        await self._channel.wait_confirmed()
        if self._last_tag:
            self._channel.send_method("basic.ack", self._last_tag, True)
        await self._channel.close()

    def _to(self, reply_to: str) -> AmqpPublisher:
        publishing = self._publishing.get(reply_to)
        if publishing is None:
            channel = self._channel
            publishing = self._publishing[reply_to] = AmqpPublisher(
                channel.number, "", reply_to, persistent=self._persistent, frame_max=channel.client.frame_max
            )
        return publishing
