"""What the drivers make of properties and headers: the embedded broker, or a library of the protocol, reads them."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import confluent_kafka
import numpy as np
import pytest
import uvloop
from confluent_kafka import TopicPartition

from drivers.amqp.null_server import AmqpNullServer
from drivers.fake_server import fake_server
from drivers.null_servers import against, bodies
from mqlab.broker.server.startup import running
from mqlab.broker.settings import Settings
from mqlab.client import aio
from mqlab.client.message import Message
from mqlab.drivers import DRIVERS, DriverConnection, DriverError, ReceiverOptions
from mqlab.drivers.api import MessageHeaders, Properties
from mqlab.drivers.kafka.client import KafkaClient
from mqlab.drivers.kafka.links import KafkaProducer, KafkaSender
from mqlab.drivers.kafka.producer import LibrdkafkaProducer
from mqlab.wire.amqp.values import ValueReader

ROWS = 20
TENANTS = [*range(-9, ROWS - 9)]
COLOURS = ["red", "dark: blue", "grün\\"] * 6 + ["é", "x"]
PROPERTIES: Properties = {"tenant": np.array(TENANTS, np.int32), "colour": np.array(COLOURS)}
PRIORITIES = [*range(10)] * 2
KEYS = ["a", "customer: 12"] * 10
# Each header alone, by the feature that a driver may lack.
HEADERS = {
    "priority": MessageHeaders(priority=np.array(PRIORITIES, np.int32)),
    "expiry": MessageHeaders(expires_s=600.0),
    "keys": MessageHeaders(key=np.array(KEYS)),
}

Play = Callable[[str, DriverConnection], Awaitable[None]]


def near_a_broker(tmp_path: Path, driver: str, play: Play) -> None:
    async def main() -> None:
        settings = Settings(data=tmp_path, listen=("tcp:127.0.0.1:0",))
        async with asyncio.timeout(240), running(settings) as (_, (address,)):
            connection = await DRIVERS[driver](str(address), {"flavour": "mqlab"}).connect("Test")
            try:
                await play(str(address), connection)
            finally:
                await connection.close()

    uvloop.run(main())


def supported_headers(driver: str) -> MessageHeaders:
    headers = MessageHeaders()
    for each in (each for feature, each in HEADERS.items() if feature not in DRIVERS[driver].lacks):
        headers = headers._replace(**{name: value for name, value in each._asdict().items() if value is not None})
    return headers


async def received_by_a_client(address: str, driver: str, send: Callable[[], Awaitable[None]]) -> list[Message]:
    """The messages to topic t. The MQTT driver has a level for the kind of a destination."""
    client = await aio.connect(address)
    consumer = await (await client.session()).consumer("topic:topic.t" if driver == "mqtt" else "topic:t")
    await send()
    messages = [await consumer.receive() for _ in range(ROWS)]
    await client.close()
    return messages


@pytest.mark.parametrize("driver", ["native", "stomp", "mqtt", "amqp10"])
@pytest.mark.parametrize(("persistent", "wait"), [(False, False), (True, False), (True, True)])
def test_the_broker_reads_properties_and_headers(tmp_path: Path, driver: str, persistent: bool, wait: bool) -> None:
    headers = supported_headers(driver)

    async def play(address: str, connection: DriverConnection) -> None:
        sender = await connection.sender("topic:t", persistent=persistent, transacted=False)

        async def send() -> None:
            await sender.send(bodies(ROWS, 12), wait=wait, properties=PROPERTIES, headers=headers)
            await sender.close()

        now_ms = time.time_ns() // 1_000_000
        messages = sorted(await received_by_a_client(address, driver, send), key=tenant_of)
        assert [tenant_of(message) for message in messages] == TENANTS
        assert [message.properties["colour"] for message in messages] == COLOURS
        if headers.priority is not None:
            assert [message.priority for message in messages] == PRIORITIES
        if headers.key is not None:
            assert [message.group for message in messages] == KEYS
        assert all(0 <= (message.expiration or 0) - now_ms - 600_000 < 240_000 for message in messages)

    near_a_broker(tmp_path, driver, play)


def tenant_of(message: Message) -> int:
    # Headers of STOMP and user properties of MQTT are texts.
    return int(message.properties["tenant"])


@pytest.mark.parametrize("driver", ["native", "stomp", "mqtt", "amqp10"])
def test_headers_need_no_properties_and_properties_no_headers(tmp_path: Path, driver: str) -> None:
    headers = supported_headers(driver)

    async def play(address: str, connection: DriverConnection) -> None:
        sender = await connection.sender("topic:t", persistent=False, transacted=False)
        for properties, own in ((PROPERTIES, None), (None, headers), (None, None)):

            async def send(properties: Properties | None = properties, own: MessageHeaders | None = own) -> None:
                await sender.send(bodies(ROWS, 12), wait=True, properties=properties, headers=own)

            messages = await received_by_a_client(address, driver, send)
            assert [bool(message.properties.keys() & {"tenant"}) for message in messages] == [bool(properties)] * ROWS
            assert [bool(message.expiration) for message in messages] == [bool(own)] * ROWS
        await sender.close()

    near_a_broker(tmp_path, driver, play)


@pytest.mark.parametrize("driver", ["mqtt", "mqtt3"])
def test_headers_that_the_protocol_lacks_are_refused(tmp_path: Path, driver: str) -> None:
    async def play(_: str, connection: DriverConnection) -> None:
        sender = await connection.sender("topic:t", persistent=False, transacted=False)
        for feature, headers in HEADERS.items():
            if reason := DRIVERS[driver].lacks.get(feature):
                with pytest.raises(DriverError, match=reason):
                    await sender.send(bodies(ROWS, 12), wait=False, headers=headers)
        if reason := DRIVERS[driver].lacks.get("properties"):
            with pytest.raises(DriverError, match=reason):
                await sender.send(bodies(ROWS, 12), wait=False, properties=PROPERTIES)

    near_a_broker(tmp_path, driver, play)


class RecordingAmqpServer(AmqpNullServer):
    """Remembers the properties of each message: what follows the content header of class 60, with its flags."""

    heads: list[bytes]

    def __init__(self) -> None:
        super().__init__(12, 10)

    def handle_data(self, data: memoryview) -> None:
        raw = bytes(data)
        at = raw.find(b"\0\x3c\0\0" + (12).to_bytes(8, "big"))
        while at >= 0:
            self.heads.append(raw[at + 12 : raw.index(b"\xce\3", at)])
            at = raw.find(b"\0\x3c\0\0" + (12).to_bytes(8, "big"), at + 12)
        super().handle_data(data)

    def next_messages(self) -> bytes | None:
        return None


@pytest.mark.parametrize("persistent", [True, False])
def test_amqp_sends_headers_a_priority_and_an_expiration(monkeypatch: pytest.MonkeyPatch, persistent: bool) -> None:
    monkeypatch.setattr(RecordingAmqpServer, "heads", [], raising=False)

    async def play(connection: DriverConnection) -> None:
        sender = await connection.sender("queue:q", persistent=persistent, transacted=False)
        await sender.send(bodies(ROWS, 12), wait=True, properties=PROPERTIES, headers=supported_headers("amqp"))
        with pytest.raises(DriverError, match="no message groups"):
            await sender.send(bodies(ROWS, 12), wait=False, headers=MessageHeaders(key=np.array(KEYS)))
        await sender.close()

    against("amqp", RecordingAmqpServer, play)
    assert len(RecordingAmqpServer.heads) == ROWS
    for row, head in enumerate(RecordingAmqpServer.heads):
        reader = ValueReader(head)
        assert reader.number(2) == 1 << 13 | persistent << 12 | 1 << 11 | 1 << 8
        assert reader.table() == {"tenant": TENANTS[row], "colour": COLOURS[row]}
        assert not persistent or reader.number(1) == 2
        assert reader.number(1) == PRIORITIES[row]
        assert reader.short() == "600000"


def test_kafka_sends_properties_as_headers_and_the_key_chooses_the_partition() -> None:
    host = confluent_kafka.Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "", "log_level": 0})
    (at,) = host.list_topics(timeout=240).brokers.values()
    address = f"{at.host}:{at.port}"

    async def play() -> None:
        client = KafkaClient(f"tcp:{address}", {}, "Test")
        producer = KafkaProducer(client, linger_ms=0, transacted=False)
        producer.library = LibrdkafkaProducer({"bootstrap.servers": address, "log_level": 0, "linger.ms": 0})
        await producer.open("t")
        sender = KafkaSender(client, producer, "t", 0, transacted=False)
        with pytest.raises(DriverError, match="Kafka has no priorities"):
            await sender.send(bodies(1, 12), wait=False, headers=MessageHeaders(priority=np.array([4])))
        headers = supported_headers("kafka")
        await sender.send(bodies(ROWS, 12), wait=True, properties=PROPERTIES, headers=headers)
        await sender.send(bodies(ROWS, 12), wait=True, headers=headers)
        await sender.send(bodies(ROWS, 12), wait=True, properties=PROPERTIES)
        await sender.close()
        await producer.close()
        client.close()

    asyncio.run(asyncio.wait_for(play(), 240))
    consumer = confluent_kafka.Consumer({
        "bootstrap.servers": address, "log_level": 0, "group.id": "test", "auto.offset.reset": "earliest",
    })  # fmt: skip
    partitions = consumer.list_topics("t", timeout=240).topics["t"].partitions
    assert len(partitions) > 1
    consumer.assign([TopicPartition("t", number, 0) for number in partitions])
    records = consumer.consume(3 * ROWS, 240)
    consumer.close()
    headed = [
        {"tenant": b"%d" % tenant, "colour": colour.encode()} for tenant, colour in zip(TENANTS, COLOURS, strict=True)
    ]
    found = [(record.key(), dict(cast(list[tuple[str, bytes]], record.headers() or []))) for record in records]
    keys = [key.encode() for key in KEYS]
    expected = [*zip(keys, headed, strict=True), *((key, {}) for key in keys), *((None, head) for head in headed)]
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    for key in {*keys}:
        assert len({record.partition() for record in records if record.key() == key}) == 1


@pytest.mark.parametrize("persistent", [False, True])
def test_nats_sends_headers_and_receives_messages_that_have_some(persistent: bool) -> None:
    sent: list[bytes] = []

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"headers":true%b}\r\n' % (b',"jetstream":true' if persistent else b""))
        sids: dict[bytes, bytes] = {}
        while line := await reader.readline():
            command, *words = line.split()
            if command == b"PING":
                writer.write(b"PONG\r\n")
            elif command == b"SUB":
                sids[words[0]] = words[-1]
            elif command == b"PUB":
                await reader.readexactly(int(words[-1]) + 2)
                reply, answer = words[1], b"{}"
                [sid] = [sid for subject, sid in sids.items() if reply.startswith(subject.rstrip(b"*>"))]
                writer.write(b"MSG %b %b %d\r\n%b\r\n" % (reply, sid, len(answer), answer))
            elif command == b"HPUB":
                sent.append(await reader.readexactly(int(words[-1]) + 2))
                if persistent:
                    writer.write(b"MSG %b %b 2\r\n{}\r\n" % (words[1], sids[words[1]]))
                elif words[0] in sids:
                    sizes = words[-2:]
                    writer.write(b"HMSG %b %b %b %b\r\n%b" % (words[0], sids[words[0]], *sizes, sent[-1]))

    async def main() -> None:
        async with asyncio.timeout(240), fake_server(play) as address:
            connection = await DRIVERS["nats"](address).connect("Test")
            receiver = None if persistent else await connection.receiver("topic:t", ReceiverOptions(100))
            sender = await connection.sender("topic:t", persistent=persistent, transacted=False)
            await sender.send(bodies(ROWS, 12), wait=True, properties=PROPERTIES)
            received: list[bytes] = []
            while receiver is not None and len(received) < ROWS:
                received += (await receiver.receive()).bodies.tolist()
            assert persistent or received == [row.tobytes() for row in bodies(ROWS, 12)]
            with pytest.raises(DriverError, match="NATS has no priorities"):
                await sender.send(bodies(1, 12), wait=False, headers=MessageHeaders(priority=np.array([4])))
            await sender.close()
            await connection.close()

    uvloop.run(main())
    assert sent == [
        f"NATS/1.0\r\ntenant: {tenant}\r\ncolour: {colour}\r\n\r\n".encode() + row.tobytes() + b"\r\n"
        for tenant, colour, row in zip(TENANTS, COLOURS, bodies(ROWS, 12), strict=True)
    ]
