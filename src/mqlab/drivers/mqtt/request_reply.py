"""Request/reply over MQTT 5: each requester has its own response topic."""

from collections.abc import Sequence

from mqlab.drivers.api import DriverError, ReceivedBatch, Reply
from mqlab.drivers.common.coroutines import CoroutineRequester, CoroutineResponder
from mqlab.drivers.common.received_batch import join_runs
from mqlab.drivers.mqtt.client import MqttClient
from mqlab.wire.mqtt.decoder import reply_properties
from mqlab.wire.mqtt.messages import MqttPublisher


class MqttRequester(CoroutineRequester):
    def __init__(self, client: MqttClient, topic: str, response_topic: str, *, persistent: bool) -> None:
        self._client = client
        self._publishing = MqttPublisher(client.version, topic, qos=int(persistent))
        self._response_topic = response_topic
        self._persistent = persistent

    async def request(self, body: bytes, correlation_id: str) -> Reply:
        client, expected = self._client, correlation_id.encode()
        number = (await client.reserve_ids(1)).item() if self._persistent else 0
        await client.publish(self._publishing.message(body, number, expected, self._response_topic))
        while True:
            runs = await client.receive(is_reply=True)
            client.acknowledge(b"".join([run.ids for run in runs]))
            for run in runs:
                # Any other reply is late: its request has failed.
                if reply_properties(run.properties).correlation == expected:
                    return Reply(run.data, run.redelivered)

    async def close(self) -> None:
        await self._client.close()


class MqttResponder(CoroutineResponder):
    def __init__(self, client: MqttClient, *, persistent: bool) -> None:
        self.confirms = persistent
        self._client = client
        self._qos = int(persistent)
        self._publishing: dict[str, MqttPublisher] = {}
        # The reply address and correlation id of each request of the last batch.
        self._reply_topics: list[tuple[bytes, str]] = []
        self._unacknowledged = b""

    async def receive(self) -> ReceivedBatch:
        self._client.acknowledge(self._unacknowledged)
        self._unacknowledged = b""
        runs = await self._client.receive()
        self._unacknowledged = b"".join([run.ids for run in runs])
        self._reply_topics = []
        for run in runs:
            correlation, response_topic = reply_properties(run.properties)
            if not response_topic or not correlation:
                raise DriverError("a request has no reply address or no correlation id")
            self._reply_topics += [(correlation, response_topic)] * run.rows
        return join_runs(runs)

    async def reply(self, bodies: Sequence[bytes], *, wait: bool) -> None:
        client, packets = self._client, []
        for body, (correlation, topic) in zip(bodies, self._reply_topics, strict=True):
            number = (await client.reserve_ids(1)).item() if self._qos else 0
            packets.append(self._to(topic).message(body, number, correlation))
        await client.publish(b"".join(packets))
        if wait:
            await client.wait_confirmed()

    async def close(self) -> None:
        if self._client.failed is None:
            self._client.acknowledge(self._unacknowledged)
        await self._client.wait_confirmed()
        await self._client.flush()
        await self._client.close()

    def _to(self, topic: str) -> MqttPublisher:
        publishing = self._publishing.get(topic)
        if publishing is None:
            publishing = self._publishing[topic] = MqttPublisher(self._client.version, topic, qos=self._qos)
        return publishing
