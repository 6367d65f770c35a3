"""The drivers of MQTT 5 and 3.1.1. Each role has a session with its own connection: a session is one subscriber."""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar
from uuid import uuid4

from mqlab.drivers import api
from mqlab.drivers.mqtt.client import MqttClient
from mqlab.drivers.mqtt.links import LACKS, LACKS_3, MqttReceiver, MqttSender
from mqlab.drivers.mqtt.request_reply import MqttRequester, MqttResponder
from mqlab.wire.mqtt.packets import Connect, Version

# A shared subscription, whose members share the messages of a topic, stands for a queue.
_SHARED = "$share/mqlab/"


class MqttDriver(api.Driver):
    """MQTT 5. Options: user, password."""

    version: ClassVar[Version] = 5
    lacks: ClassVar[Mapping[str, str]] = {
        "transactions": "MQTT has none",
        "client acknowledgement": "MQTT sends what was not acknowledged to the same session only, never to another",
        **LACKS,
        "selectors": "MQTT messages are chosen by topic only",
        "retrieval by correlation id": "an MQTT client cannot choose messages: each requester has its own topic",
        "depth": "an MQTT topic keeps no messages, and cannot be asked",
        "bindings": "MQTT needs a connection",
        "distributed": "there are no channels between brokers in MQTT",
    }

    async def connect(self, application: str = "") -> api.DriverConnection:
        login = Connect("", self.version, self.options.get("user", ""), self.options.get("password", ""))
        connection = MqttConnection(self.address, login, application or "mqlab", type(self).lacks)
        # Connect once, so that an error shows now and not with the first link.
        await (await connection.client()).close()
        return connection


class Mqtt3Driver(MqttDriver):
    """MQTT 3.1.1, for systems that do not support MQTT 5."""

    version: ClassVar[Version] = 4
    lacks: ClassVar[Mapping[str, str]] = {
        **MqttDriver.lacks,
        **LACKS_3,
        "queues": "MQTT 3.1.1 has no shared subscriptions",
        "competing consumers": "MQTT 3.1.1 has no shared subscriptions",
        "request/reply": "MQTT 3.1.1 messages cannot say where their reply should go",
    }


class MqttConnection(api.DriverConnection):
    def __init__(self, address: str, login: Connect, application: str, lacks: Mapping[str, str]) -> None:
        self._address = address
        self._login = login
        self._application = application
        self._lacks = lacks
        self._clients: list[MqttClient] = []

    async def client(self, capacity: int = 0, durable: str = "") -> MqttClient:
        """Open a session. One with the name `durable` outlives its connection."""
        client_id = durable or f"{self._application}-{uuid4().hex}"
        connect = replace(
            self._login, client_id=client_id, keep_session=bool(durable), clean_start=not durable,
            receive_maximum=max(1, min(capacity, 0xFFFF)) if capacity else 0xFFFF,
        )  # fmt: skip
        client = MqttClient(connect, capacity)
        await client.open(self._address)
        self._clients.append(client)
        return client

    async def sender(self, destination: str, *, persistent: bool, transacted: bool) -> api.Sender:
        if transacted:
            raise api.DriverError(self._lacks["transactions"])
        topic = self._topic(destination)
        client = await self.client()
        client.needs_subscribers = destination.startswith("queue:")
        return MqttSender(client, topic, persistent=persistent)

    async def receiver(self, destination: str, options: api.ReceiverOptions) -> api.Receiver:
        self._check(options)
        client = await self._subscribe(destination, options.prefetch, options.durable)
        return MqttReceiver(client, options.prefetch // 2 if options.acknowledge == "dups_ok" else 0)

    async def requester(self, destination: str, reply_to: str, *, persistent: bool) -> api.DriverRequester:
        self._check_has("request/reply")
        client = await self.client(capacity=1)
        client.needs_subscribers = True
        response_topic = f"{self._topic(reply_to)}/{uuid4().hex}"
        await client.subscribe(response_topic)
        return MqttRequester(client, self._topic(destination), response_topic, persistent=persistent)

    async def responder(self, destination: str, *, prefetch: int, persistent: bool) -> api.Responder:
        self._check_has("request/reply")
        return MqttResponder(await self._subscribe(destination, prefetch, ""), persistent=persistent)

    async def subscribe(self, topic: str, options: api.ReceiverOptions) -> None:
        self._check(options)
        client = await self.client(durable=options.durable)
        await client.subscribe(self._topic(topic))
        await client.close()

    async def unsubscribe(self, durable: str) -> None:
        client = MqttClient(replace(self._login, client_id=durable))
        await client.open(self._address)
        await client.close()

    async def close(self) -> None:
        for client in self._clients:
            await client.close()

    async def _subscribe(self, destination: str, capacity: int, durable: str) -> MqttClient:
        shared = _SHARED if destination.startswith("queue:") else ""
        topic = shared + self._topic(destination)
        client = await self.client(capacity, durable)
        await client.subscribe(topic)
        return client

    def _topic(self, destination: str) -> str:
        if destination.startswith("queue:"):
            self._check_has("queues")
        return destination.replace(":", "/", 1)

    def _check(self, options: api.ReceiverOptions) -> None:
        for needed, feature in (
            (options.selector, "selectors"), (options.acknowledge == "client", "client acknowledgement"),
            (options.acknowledge == "transacted", "transactions"),
        ):  # fmt: skip
            if needed:
                self._check_has(feature)

    def _check_has(self, feature: str) -> None:
        if feature in self._lacks:
            raise api.DriverError(self._lacks[feature])
