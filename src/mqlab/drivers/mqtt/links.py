"""Links of the MQTT driver: sender and receiver."""

import math
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from mqlab.drivers.api import DriverError, Matrix, MessageHeaders, Properties, ReceivedBatch, Receiver, Sender
from mqlab.drivers.common.message_rows import message_rows
from mqlab.drivers.common.received_batch import join_runs
from mqlab.drivers.mqtt.client import MqttClient
from mqlab.wire.mqtt.messages import MqttPublisher

# Bytes of one write: a batch of large messages takes several.
_WRITE_BYTES: Final = 256 * 1024
_MOST_SECONDS: Final = 2**32 - 1

LACKS: Final[Mapping[str, str]] = {"priority": "MQTT has no priorities", "keys": "MQTT messages have no keys"}
LACKS_3: Final[Mapping[str, str]] = {
    **LACKS,
    "properties": "MQTT 3.1.1 messages have no properties",
    "expiry": "MQTT 3.1.1 messages do not expire",
}
_PacketIds = npt.NDArray[np.uint16]
_Encoder = Callable[[Matrix, _PacketIds | None], bytes]


class MqttSender(Sender):
    """Uses QoS 1 for persistent messages and for sends that wait, else QoS 0."""

    def __init__(self, client: MqttClient, topic: str, *, persistent: bool) -> None:
        self._client = client
        self._publishing = [MqttPublisher(client.version, topic, qos=qos) for qos in (0, 1)]
        self._persistent = persistent

    async def send(
        self, bodies: Matrix, *, wait: bool, properties: Properties | None = None, headers: MessageHeaders | None = None
    ) -> None:
        qos = int(wait or self._persistent)
        publishing, client = self._publishing[qos], self._client
        encode: _Encoder = publishing.batch
        if properties is not None or headers is not None:
            encode = self._encoder(publishing, len(bodies), properties, headers)
        max_rows = max(1, _WRITE_BYTES // publishing.row_size(bodies.shape[1]))
        first = 0
        while first < len(bodies):
            rows, ids = min(max_rows, len(bodies) - first), None
            if qos:
                ids = await client.reserve_ids(rows)
                rows = len(ids)
            await client.publish(encode(bodies[first : first + rows], ids))
            first += rows
        if wait:
            await client.wait_confirmed()

    def _encoder(
        self, publishing: MqttPublisher, count: int, properties: Properties | None, headers: MessageHeaders | None
    ) -> _Encoder:
        """Encodes the next messages of a batch, each with its user properties."""
        lacks = LACKS if self._client.version == 5 else LACKS_3
        if properties is not None and "properties" in lacks:
            raise DriverError(lacks["properties"])
        expires_s = 0
        if headers is not None:
            headers.check(lacks)
            expires_s = min(math.ceil(headers.expires_s or 0), _MOST_SECONDS)
        rows = iter(message_rows(count, properties, headers))

        def encode(bodies: Matrix, ids: _PacketIds | None) -> bytes:
            numbers = [0] * len(bodies) if ids is None else ids.tolist()
            return b"".join([
                publishing.message(
                    body.tobytes(), number, expires_s=expires_s,
                    user_properties=[(name, str(value)) for name, value in row.properties.items()],
                )
                for body, number, row in zip(bodies, numbers, rows, strict=False)
            ])  # fmt: skip

        return encode

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
