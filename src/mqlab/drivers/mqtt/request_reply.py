"""Request/reply over MQTT 5: each requester has its own response topic."""

import asyncio
from collections.abc import Sequence

from mqlab.drivers.api import DriverError, DriverRequester, OnReply, Reply, RequestBatch
from mqlab.drivers.common.pending_reply import PendingReply
from mqlab.drivers.common.received_batch import bodies_of_runs
from mqlab.drivers.common.responding import CallbackResponder
from mqlab.drivers.mqtt.client import MqttClient
from mqlab.wire.mqtt.decoder import reply_properties
from mqlab.wire.mqtt.messages import MqttPublisher


class MqttRequester(DriverRequester):
    def __init__(self, client: MqttClient, topic: str, response_topic: str, *, persistent: bool) -> None:
        self._client = client
        client.on_arrival = self._arrived
        self._publishing = MqttPublisher(client.version, topic, qos=int(persistent))
        self._response_topic = response_topic
        self._persistent = persistent
        self._pending = PendingReply(self._abandon)
        # A request that waits until the system confirms earlier ones.
        self._waiting: asyncio.Task[None] | None = None

    def ask(self, body: bytes, correlation_id: str, on_reply: OnReply) -> None:
        self._pending.expect(correlation_id, on_reply)
        number = self._client.reserve_id() if self._persistent else 0
        if self._persistent and not number:
            self._waiting = asyncio.ensure_future(self._send_later(body))
            return
        try:
            self._send(body, number)
        except DriverError as error:
            self._pending.fail(error)

    def _send(self, body: bytes, number: int) -> None:
        expected = self._pending.correlation_id.encode()
        self._client.write(self._publishing.message(body, number, expected, self._response_topic))

    async def _send_later(self, body: bytes) -> None:
        try:
            self._send(body, (await self._client.reserve_ids(1)).item())
        except DriverError as error:
            self._pending.settle(error)

    def _arrived(self) -> None:
        client, pending = self._client, self._pending
        try:
            while runs := client.take_arrived():
                client.acknowledge(b"".join([run.ids for run in runs]))
                for run in runs:
                    # Any other reply is late: its request has failed.
                    if reply_properties(run.properties).correlation == pending.correlation_id.encode():
                        pending.settle(Reply(run.data, run.redelivered))
        except DriverError as error:
            pending.settle(error)

    def _abandon(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()

    def stop(self) -> None:
        self._pending.stop()

    async def close(self) -> None:
        self.stop()
        await self._client.close()


class MqttResponder(CallbackResponder):
    def __init__(self, client: MqttClient, *, persistent: bool) -> None:
        super().__init__(persistent=persistent)
        self._client = client
        client.on_arrival = self.arrived
        self._publishing: dict[str, MqttPublisher] = {}
        # The reply address and correlation id of each request of the last batch, and replies that are not all sent.
        self._reply_topics: list[tuple[bytes, str]] = []
        self._replies: Sequence[bytes] = ()
        self._unacknowledged = b""

    def take_requests(self) -> RequestBatch | None:
        runs = self._client.take_arrived()
        if not runs:
            return None
        self._unacknowledged = b"".join([run.ids for run in runs])
        self._reply_topics = []
        for run in runs:
            correlation, response_topic = reply_properties(run.properties)
            if not response_topic or not correlation:
                raise DriverError("a request has no reply address or no correlation id")
            self._reply_topics += [(correlation, response_topic)] * run.rows
        return RequestBatch(bodies_of_runs(runs), runs[0].redelivered)

    def send_replies(self, bodies: Sequence[bytes]) -> bool:
        if self._persistent:
            # Each needs a packet id, and the system limits their number.
            self._replies = bodies
            return False
        replies = zip(bodies, self._reply_topics, strict=True)
        self._client.write(b"".join([self._reply(body, 0, *to) for body, to in replies]))
        self._acknowledge()
        return not self._client.is_write_paused

    async def wait_sent(self) -> None:
        client = self._client
        if not self._persistent:
            await client.wait_writable()
            return
        for body, to in zip(self._replies, self._reply_topics, strict=True):
            await client.publish(self._reply(body, client.reserve_id() or (await client.reserve_ids(1)).item(), *to))
        self._replies = ()
        await client.wait_confirmed()
        self._acknowledge()

    async def close(self) -> None:
        await self._client.wait_confirmed()
        if not self._replies:
            self._acknowledge()
        await self._client.flush()
        await self._client.close()

    def _acknowledge(self) -> None:
        self._client.acknowledge(self._unacknowledged)
        self._unacknowledged = b""

    def _reply(self, body: bytes, number: int, correlation: bytes, topic: str) -> bytes:
        publishing = self._publishing.get(topic)
        if publishing is None:
            qos = int(self._persistent)
            publishing = self._publishing[topic] = MqttPublisher(self._client.version, topic, qos=qos)
        return publishing.message(body, number, correlation)
