"""Links of the MQTT driver: sender and receiver."""

from typing import Final

from mqlab.drivers.api import DriverError, Matrix, Properties, ReceivedBatch, Receiver, Sender
from mqlab.drivers.common.received_batch import join_runs
from mqlab.drivers.mqtt.client import MqttClient
from mqlab.wire.mqtt.messages import MqttPublisher

# Bytes of one write: a batch of large messages takes several.
_WRITE_BYTES: Final = 256 * 1024


class MqttSender(Sender):
    """Uses QoS 1 for persistent messages and for sends that wait, else QoS 0."""

    def __init__(self, client: MqttClient, topic: str, *, persistent: bool) -> None:
        self._client = client
        self._publishing = [MqttPublisher(client.version, topic, qos=qos) for qos in (0, 1)]
        self._persistent = persistent

    async def send(self, bodies: Matrix, *, wait: bool, properties: Properties | None = None) -> None:
        if properties is not None:
            raise DriverError("properties are for selectors, and MQTT has none")
        qos = int(wait or self._persistent)
        publishing, client = self._publishing[qos], self._client
        max_rows = max(1, _WRITE_BYTES // publishing.row_size(bodies.shape[1]))
        first = 0
        while first < len(bodies):
            rows, ids = min(max_rows, len(bodies) - first), None
            if qos:
                ids = await client.reserve_ids(rows)
                rows = len(ids)
            await client.publish(publishing.batch(bodies[first : first + rows], ids))
            first += rows
        if wait:
            await client.wait_confirmed()

    async def close(self) -> None:
        await self._client.wait_confirmed()
        await self._client.flush()
        await self._client.close()


class MqttReceiver(Receiver):
    """Acknowledges when more than `ack_delay` messages are unacknowledged."""

    def __init__(self, client: MqttClient, ack_delay: int) -> None:
        self._client = client
        self._ack_delay = ack_delay
        self._unacknowledged: list[bytes] = []
        self._unacknowledged_rows = 0

    async def receive(self) -> ReceivedBatch:
        if self._unacknowledged_rows > self._ack_delay:
            self._acknowledge()
        runs = await self._client.receive()
        batch = join_runs(runs)
        self._unacknowledged += [run.ids for run in runs if run.ids]
        self._unacknowledged_rows += len(batch.bodies)
        return batch

    async def close(self) -> None:
        if self._client.failed is None:
            self._acknowledge()
        await self._client.close()

    def _acknowledge(self) -> None:
        self._client.acknowledge(b"".join(self._unacknowledged))
        self._unacknowledged, self._unacknowledged_rows = [], 0
