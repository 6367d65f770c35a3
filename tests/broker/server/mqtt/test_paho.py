"""A real client: paho-mqtt, over TCP, TLS and WebSocket, and beside STOMP; and Mosquitto's tools, if they are here."""

import queue
import select
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
import trustme
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.properties import Properties

from broker.server.stomp.stomp_clients import Client as StompClient
from broker.server.stomp.stomp_clients import Process, broker

SECONDS = 60.0
VERSIONS = (MQTTProtocolVersion.MQTTv311, MQTTProtocolVersion.MQTTv5)


class Paho:
    def __init__(self, version: MQTTProtocolVersion, name: str, transport: str = "tcp") -> None:
        self.c = paho.Client(CallbackAPIVersion.VERSION2, name, protocol=version, transport=transport)  # type: ignore[arg-type] # a word
        self.messages: queue.Queue[paho.MQTTMessage] = queue.Queue()
        self.subscribed: queue.Queue[list[int]] = queue.Queue()
        self.c.on_message = lambda _client, _data, message: self.messages.put(message)
        self.c.on_subscribe = lambda _client, _data, _id, reasons, _properties: self.subscribed.put(
            [reason.value for reason in reasons]
        )

    def subscribe(self, topic: str, qos: int) -> list[int]:
        self.c.subscribe(topic, qos)
        return self.subscribed.get(timeout=SECONDS)

    def publish(self, topic: str, body: bytes, qos: int, properties: Properties | None = None) -> None:
        self.c.publish(topic, body, qos, properties=properties).wait_for_publish(SECONDS)

    def message(self) -> paho.MQTTMessage:
        return self.messages.get(timeout=SECONDS)


@contextmanager
def client(
    port: int, version: MQTTProtocolVersion, name: str = "", transport: str = "tcp", ca: Path | None = None
) -> Iterator[Paho]:
    peer = Paho(version, name, transport)
    if ca is not None:
        peer.c.tls_set(str(ca))
    peer.c.connect("127.0.0.1", port)
    peer.c.loop_start()
    try:
        yield peer
    finally:
        peer.c.disconnect()
        peer.c.loop_stop()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(folder / "ca")
    issued.private_key_pem.write_to_path(folder / "key")
    (folder / "certificate").write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    return folder


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory, certificate: Path) -> Iterator[Process]:
    options = (
        f"--data={tmp_path_factory.mktemp('data')}", f"--tls-certificate={certificate / 'certificate'}",
        f"--tls-key={certificate / 'key'}",
    )  # fmt: skip
    with broker(*options, listen=("tcp:127.0.0.1:0", "tls:127.0.0.1:0")) as running:
        yield running


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("transport", ["tcp", "tls", "ws", "wss"])
def test_each_qos_over_each_transport(
    process: Process, certificate: Path, version: MQTTProtocolVersion, transport: str
) -> None:
    port, ca = (process.ports[1], certificate / "ca") if transport in ("tls", "wss") else (process.port, None)
    carrier = "websockets" if transport in ("ws", "wss") else "tcp"
    how = (version, "", carrier, ca)
    with client(port, *how) as receiver, client(port, *how) as sender:
        assert receiver.subscribe("paho/+", 2) == [2]
        for qos in range(3):
            sender.publish(f"paho/{qos}", b"x" * (1 + 10_000 * qos), qos)
            message = receiver.message()
            assert (message.topic, len(message.payload), message.qos) == (f"paho/{qos}", 1 + 10_000 * qos, qos)


def test_stomp_and_mqtt_clients_share_topics(process: Process) -> None:
    with client(process.port, MQTTProtocolVersion.MQTTv5, "m") as mqtt, StompClient(process.port) as stomp:
        mqtt.subscribe("shared/+", 1)
        stomp.send("/topic/shared.a", b"from stomp", persistent="true", colour="red", **{"correlation-id": "7"})
        got = mqtt.message()
        assert (got.topic, got.payload, got.qos) == ("shared/a", b"from stomp", 1)
        assert got.properties is not None
        properties: Any = got.properties
        assert ("colour", "red") in properties.UserProperty
        assert properties.CorrelationData == b"7"
        properties = Properties(3)  # type: ignore[no-untyped-call] # paho has no types here
        properties.UserProperty = [("size", "large")]
        properties.ContentType = "text/plain"
        stomp.subscribe("/queue/from-mqtt", "1")
        mqtt.publish("$queue/from-mqtt", b"from mqtt", 1, properties)
        message = stomp.message()
        assert message.body == b"from mqtt"
        assert (message.headers["size"], message.headers["content-type"]) == ("large", "text/plain")


@pytest.mark.parametrize("version", ["mqttv311", "mqttv5"])
def test_mosquitto_s_tools(process: Process, version: str) -> None:
    """A retained message, a shared subscription, and the will of a client that is killed."""
    if shutil.which("mosquitto_pub") is None or shutil.which("mosquitto_sub") is None:
        pytest.skip("mosquitto_pub and mosquitto_sub are not installed")
    common, topic = ("-p", str(process.port), "-V", version, "-q", "2"), f"tools/{version}"
    subprocess.run(["mosquitto_pub", *common, "-t", topic, "-m", "hello", "-r"], check=True, timeout=SECONDS)
    heard = subprocess.run(
        ["mosquitto_sub", *common, "-t", topic, "-C", "1"], check=True, timeout=SECONDS, capture_output=True
    )
    assert heard.stdout == b"hello\n"
    will = ("--will-topic", f"{topic}/will", "--will-payload", "gone", "--will-qos", "1")
    with subprocess.Popen(
        ["mosquitto_sub", *common, "-t", f"$share/group/{topic}/+", "-F", "%t %p", *will], stdout=subprocess.PIPE
    ) as shared, client(process.port, MQTTProtocolVersion.MQTTv5) as watcher:  # fmt: skip
        assert shared.stdout is not None
        watcher.subscribe(f"{topic}/will", 1)
        while shared.poll() is None:
            # Until its subscription is there, nobody gets the message.
            watcher.publish(f"{topic}/1", b"shared", 1)
            if select.select([shared.stdout], [], [], 0.1)[0]:
                break
        assert shared.stdout.readline() == f"{topic}/1 shared\n".encode()
        shared.kill()
        message = watcher.message()
        assert (message.topic, message.payload) == (f"{topic}/will", b"gone")
