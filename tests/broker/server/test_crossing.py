"""Messages cross between clients of all protocols, each a real client, with headers and properties as documented.

docs/amqp.md and docs/mqtt.md have the tables of how each field maps.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from itertools import count, permutations
from math import ceil
from typing import Any, Final, Protocol

import pytest
from paho.mqtt.enums import MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from mqlab.client.blocking import connect

from .mqtt.test_paho import client as paho_client
from .stomp.stomp_clients import Client as StompClient
from .stomp.stomp_clients import Process, broker

proton = pytest.importorskip("proton", reason="python-qpid-proton is not installed")
proton_utils = pytest.importorskip("proton.utils")

SECONDS = 60.0
PROTOCOLS = ("native", "AMQP", "MQTT", "STOMP")
_names = count(1)


@dataclass(frozen=True)
class Letter:
    """What every protocol can carry. `reply_to` is the name of a topic with one level."""

    body: bytes = b"one"
    persistent: bool = True
    correlation_id: str = "7"
    reply_to: str = "answers"
    type: str = "order"
    group: str = "g"
    priority: int = 6
    content_type: str = "text/plain"
    properties: dict[str, Any] = field(default_factory=lambda: {"colour": "red", "x-size.of": "large"})
    # Seconds until it expires; 0: never.
    ttl_s: int = 0


# Of a type each, as native and AMQP clients have them.
TYPED: Final = {"count": 1 << 40, "ratio": 0.25, "urgent": True, "colour": "red"}
# MQTT and STOMP have texts only.
AS_TEXTS: Final = {"count": "1099511627776", "ratio": "0.25", "urgent": "true", "colour": "red"}
NAMES: Final = {*Letter().properties, *TYPED}


class Peer(Protocol):
    """A connected client. `open` makes ready to receive from a queue, or a topic: it has one level."""

    def open(self, name: str, kind: str = "queue") -> None: ...
    def send(self, name: str, letter: Letter, kind: str = "queue") -> None: ...
    def receive(self) -> Letter: ...


def left_s(expires_ms: int) -> int:
    """Seconds until a message expires, rounded up; 0: never."""
    return expires_ms and max(1, -int(-(expires_ms / 1000 - time.time()) // 1))


class NativePeer:
    def __init__(self, session: Any) -> None:
        self._session = session

    def open(self, name: str, kind: str = "queue") -> None:
        self._consumer = self._session.consumer(f"{kind}:{name}")

    def send(self, name: str, letter: Letter, kind: str = "queue") -> None:
        names = {key.replace("-", "_HYPHEN_").replace(".", "_DOT_"): value for key, value in letter.properties.items()}
        self._session.producer(f"{kind}:{name}").send(
            letter.body, persistent=letter.persistent, correlation_id=letter.correlation_id,
            reply_to=f"topic:{letter.reply_to}", type=letter.type, group=letter.group, priority=letter.priority,
            properties={**names, "content_type": letter.content_type}, time_to_live=letter.ttl_s * 1000,
        )  # fmt: skip

    def receive(self) -> Letter:
        message = self._consumer.receive(SECONDS)
        properties = {**message.properties}
        return Letter(
            message.body, message.persistent, message.correlation_id, message.reply_to.removeprefix("topic:"),
            message.type, message.group, message.priority, properties.pop("content_type"),
            {name.replace("_HYPHEN_", "-").replace("_DOT_", "."): value for name, value in properties.items()},
            left_s(message.expiration),
        )  # fmt: skip


class AmqpPeer:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def open(self, name: str, kind: str = "queue") -> None:
        self._receiver = self._connection.create_receiver(f"{kind}://{name}", credit=1)

    def send(self, name: str, letter: Letter, kind: str = "queue") -> None:
        message = proton.Message(
            body=letter.body, durable=letter.persistent, correlation_id=letter.correlation_id,
            reply_to=f"topic://{letter.reply_to}", subject=letter.type, group_id=letter.group,
            priority=letter.priority, content_type=letter.content_type, properties=letter.properties, inferred=True,
            ttl=float(letter.ttl_s),
        )  # fmt: skip
        self._connection.create_sender(f"{kind}://{name}").send(message)

    def receive(self) -> Letter:
        message = self._receiver.receive(timeout=SECONDS)
        self._receiver.accept()
        return Letter(
            bytes(message.body), message.durable, message.correlation_id, message.reply_to.removeprefix("topic://"),
            message.subject, message.group_id, message.priority, message.content_type, dict(message.properties),
            ceil(message.ttl),
        )  # fmt: skip


class MqttPeer:
    def __init__(self, peer: Any) -> None:
        self._peer = peer

    def open(self, name: str, kind: str = "queue") -> None:
        assert self._peer.subscribe(f"$queue/{name}" if kind == "queue" else name, 1) == [1]

    def send(self, name: str, letter: Letter, kind: str = "queue") -> None:
        properties: Any = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call] # paho has no types here
        properties.ContentType = letter.content_type
        properties.ResponseTopic = letter.reply_to
        properties.CorrelationData = letter.correlation_id.encode()
        if letter.ttl_s:
            properties.MessageExpiryInterval = letter.ttl_s
        headers = {"type": letter.type, "priority": str(letter.priority), "JMSXGroupID": letter.group}
        properties.UserProperty = [*(headers | letter.properties).items()]
        topic = f"$queue/{name}" if kind == "queue" else name
        self._peer.publish(topic, letter.body, int(letter.persistent), properties)

    def receive(self) -> Letter:
        message = self._peer.message()
        named = dict(message.properties.UserProperty)
        return Letter(
            message.payload, message.qos > 0, message.properties.CorrelationData.decode(),
            message.properties.ResponseTopic, named["type"], named["JMSXGroupID"], int(named["priority"]),
            message.properties.ContentType, {name: named[name] for name in named if name in NAMES},
            getattr(message.properties, "MessageExpiryInterval", 0),
        )  # fmt: skip


class StompPeer:
    def __init__(self, client: StompClient) -> None:
        self._client = client

    def open(self, name: str, kind: str = "queue") -> None:
        self._client.subscribe(f"/{kind}/{name}")

    def send(self, name: str, letter: Letter, kind: str = "queue") -> None:
        headers = {
            "persistent": str(letter.persistent).lower(), "correlation-id": letter.correlation_id,
            "reply-to": f"/topic/{letter.reply_to}", "type": letter.type, "JMSXGroupID": letter.group,
            "priority": str(letter.priority), "content-type": letter.content_type,
        }  # fmt: skip
        if letter.ttl_s:
            headers["ttl"] = str(letter.ttl_s * 1000)
        self._client.send(f"/{kind}/{name}", letter.body, **headers, **letter.properties)

    def receive(self) -> Letter:
        message = self._client.message()
        named = message.headers
        return Letter(
            message.body, named.get("persistent") == "true", named["correlation-id"],
            named["reply-to"].removeprefix("/topic/"), named["type"], named["JMSXGroupID"], int(named["priority"]),
            named["content-type"], {name: named[name] for name in named if name in NAMES},
            left_s(int(named.get("expires", 0))),
        )  # fmt: skip


@contextmanager
def native(port: int) -> Iterator[NativePeer]:
    with connect(f"tcp:127.0.0.1:{port}") as connection:
        yield NativePeer(connection.session())


@contextmanager
def amqp(port: int) -> Iterator[AmqpPeer]:
    connection = proton_utils.BlockingConnection(f"127.0.0.1:{port}", timeout=SECONDS)
    try:
        yield AmqpPeer(connection)
    finally:
        connection.close()


@contextmanager
def mqtt(port: int) -> Iterator[MqttPeer]:
    with paho_client(port, MQTTProtocolVersion.MQTTv5) as peer:
        yield MqttPeer(peer)


@contextmanager
def stomp(port: int) -> Iterator[StompPeer]:
    with StompClient(port) as client:
        yield StompPeer(client)


Open = Callable[[int], AbstractContextManager[Peer]]
CLIENTS: dict[str, Open] = dict(zip(PROTOCOLS, (native, amqp, mqtt, stomp), strict=True))


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with broker(f"--data={tmp_path_factory.mktemp('data')}") as running:
        yield running


@pytest.mark.parametrize("persistent", [True, False], ids=["persistent", "not persistent"])
@pytest.mark.parametrize(("sender", "receiver"), [*permutations(PROTOCOLS, 2)])
def test_message_crosses_with_its_headers_and_properties(
    process: Process, sender: str, receiver: str, persistent: bool
) -> None:
    queue, letter = f"crossing{next(_names)}", replace(Letter(), persistent=persistent)
    with CLIENTS[sender](process.port) as sending, CLIENTS[receiver](process.port) as receiving:
        receiving.open(queue)
        sending.send(queue, letter)
        assert receiving.receive() == letter


@pytest.mark.parametrize("receiver", PROTOCOLS)
def test_bytes_that_are_no_text_cross_as_they_are(process: Process, receiver: str) -> None:
    letter = replace(Letter(), body=bytes(range(256)) * 300, content_type="application/octet-stream")
    for sender in PROTOCOLS:
        queue = f"crossing{next(_names)}"
        with CLIENTS[sender](process.port) as sending, CLIENTS[receiver](process.port) as receiving:
            receiving.open(queue)
            sending.send(queue, letter)
            assert receiving.receive() == letter


@pytest.mark.parametrize("receiver", PROTOCOLS)
@pytest.mark.parametrize("sender", ["native", "AMQP"])
def test_types_of_properties_cross_as_far_as_the_receiver_has_types(
    process: Process, sender: str, receiver: str
) -> None:
    name, letter = f"crossing{next(_names)}", replace(Letter(), properties=TYPED)
    with CLIENTS[sender](process.port) as sending, CLIENTS[receiver](process.port) as receiving:
        receiving.open(name, "topic")
        sending.send(name, letter, "topic")
        properties = receiving.receive().properties
    assert properties == (TYPED if receiver in ("native", "AMQP") else AS_TEXTS)
    assert {key: type(properties[key]) for key in TYPED} == {
        key: type(TYPED[key]) if receiver in ("native", "AMQP") else str for key in TYPED
    }


@pytest.mark.parametrize(("sender", "receiver"), [*permutations(PROTOCOLS, 2)])
def test_expiry_crosses_over_topics(process: Process, sender: str, receiver: str) -> None:
    name, ttl_s = f"crossing{next(_names)}", 100_000
    with CLIENTS[sender](process.port) as sending, CLIENTS[receiver](process.port) as receiving:
        receiving.open(name, "topic")
        sending.send(name, replace(Letter(), ttl_s=ttl_s), "topic")
        # The rest is what the message has waited.
        assert ttl_s - SECONDS < receiving.receive().ttl_s <= ttl_s
