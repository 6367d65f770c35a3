"""Request/reply over AMQP 0-9-1: each requester has its own reply queue."""

from collections.abc import Sequence

from mqlab.drivers.amqp.client import AmqpChannel
from mqlab.drivers.api import DriverError, ReceivedBatch, Reply
from mqlab.drivers.common.coroutines import CoroutineRequester, CoroutineResponder
from mqlab.drivers.common.received_batch import join_runs
from mqlab.wire.amqp.content import AmqpPublisher, reply_properties
from mqlab.wire.amqp.methods import method


class AmqpRequester(CoroutineRequester):
    """Has its own reply queue; `acknowledges` the replies of a durable one."""

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


class AmqpResponder(CoroutineResponder):
    def __init__(self, channel: AmqpChannel, *, persistent: bool) -> None:
        self.confirms = persistent
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
            # The system reads the acknowledgement after the replies, so one write is enough for both.
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
