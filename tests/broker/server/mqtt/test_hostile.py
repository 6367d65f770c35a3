"""Clients that break the protocol or a limit get its own error, and disturb nobody else."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from broker.server.access_users import PASSWORD, write_users
from broker.server.raw_client import in_loop, local
from broker.server.stomp.test_fuzz import Socket
from broker.server.websocket.websocket_client import Web
from mqlab.broker import limits
from mqlab.broker.security.commands import ADMIN_REQUESTS, FRAMES, MQTT
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.mqtt.connection import MqttServerConnection
from mqlab.broker.server.mqtt.publishing import STORED_TOGETHER, parts_of
from mqlab.broker.server.startup import running
from mqlab.wire.mqtt import packets
from mqlab.wire.mqtt.from_client import _FLAGS, PublishRun
from mqlab.wire.mqtt.packets import packet, text
from mqlab.wire.mqtt.properties import Property
from mqlab.wire.mqtt.reasons import Reason

from .mqtt_client import CONNACK, PUBACK, PUBCOMP, PUBREC, PUBREL, Peer, Properties, Will, acknowledge, connect, publish


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x36\x05\0\x01t\0\x01", Reason.MALFORMED_PACKET),
        (b"\x38\x04\0\x01t\0", Reason.MALFORMED_PACKET),
        (b"\x30\x02\0\x09", Reason.MALFORMED_PACKET),
        (b"\x30\x03\0\x01t", Reason.MALFORMED_PACKET),
        (publish("t", b"x", 1, 0), Reason.MALFORMED_PACKET),
        (b"\x30\x05\0\x02\xff\xfe\0", Reason.MALFORMED_PACKET),
        (b"\x30\x05\0\x02t\0\0", Reason.MALFORMED_PACKET),
        (publish("", b"x"), Reason.TOPIC_NAME_INVALID),
        (publish("a/#", b"x"), Reason.TOPIC_NAME_INVALID),
        (publish("x" * 300, b"x"), Reason.TOPIC_NAME_INVALID),
        (publish("t", b"\xff", properties={Property.PAYLOAD_FORMAT: 1}), Reason.PAYLOAD_FORMAT_INVALID),
        (publish("t", b"x", properties={Property.SUBSCRIPTION_ID: 1}), Reason.PROTOCOL_ERROR),
        (packet(0x30, text("t") + b"\x06\x02\0\0\0\x01\x02"), Reason.PROTOCOL_ERROR),
        (packet(0x30, text("t") + b"\x02\x7f\0"), Reason.MALFORMED_PACKET),
        (packet(0x30, text("t") + b"\x02\x01\x02"), Reason.PROTOCOL_ERROR),
        (b"\x82\x03\0\x01\0", Reason.PROTOCOL_ERROR),
        (packet(0x82, b"\0\x01\0" + text("t") + b"\x03"), Reason.MALFORMED_PACKET),
        (packet(0x82, b"\0\x01\0" + text("$share/g/t") + b"\x04"), Reason.PROTOCOL_ERROR),
        (packet(0x80, b"\0\x01\0" + text("t") + b"\0"), Reason.MALFORMED_PACKET),
        (b"\xa2\x03\0\x01\0", Reason.PROTOCOL_ERROR),
        (b"\x40\x01\0", Reason.MALFORMED_PACKET),
        (b"\x60\x02\0\x01", Reason.MALFORMED_PACKET),
        (b"\xc0\x01\0", Reason.MALFORMED_PACKET),
        (b"\xf0\0", Reason.PROTOCOL_ERROR),
        (b"\0\0", Reason.MALFORMED_PACKET),
        (b"\x30\xff\xff\xff\xff\x01", Reason.MALFORMED_PACKET),
        (connect("again"), Reason.PROTOCOL_ERROR),
    ],
)
@in_loop
async def test_what_breaks_the_protocol_ends_the_connection_with_its_reason(data: bytes, reason: Reason) -> None:
    async with running(local()) as (broker, (address,)):
        other, bad = await Peer.connect(address), await Peer.connect(address)
        await other.subscribe("t")
        bad.send(publish("t", b"before"), data, publish("t", b"after"))
        assert await bad.ended() == reason
        assert await other.bodies(1) == [b"before"]
        assert await other.nothing()
        assert not broker.failure.done()


@in_loop
async def test_an_old_client_that_breaks_the_protocol_is_cut() -> None:
    async with running(local()) as (_, (address,)):
        bad = await Peer.connect(address, version=4)
        bad.send(publish("a/#", b"x", version=4))
        assert await bad.ended() is None


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (packet(0x10, text("MQIsdp") + b"\x03\x02\0\0" + text("c")), b"\x20\x02\0\x01"),
        (packet(0x10, text("MQTT") + b"\x06\x02\0\0" + text("c")), b"\x20\x02\0\x01"),
        (connect("c", will=Will("a/#", b"")), b"\x20\x03\0\x90\0"),
        (connect("c", will=Will("$SYS/x", b"")), b"\x20\x03\0\x87\0"),
        (connect("c", properties={Property.AUTHENTICATION_METHOD: "x"}), b"\x20\x03\0\x8c\0"),
        (packet(0x10, text("MQTT") + b"\x04\x03\0\0" + text("c")), b""),
        (packet(0x10, text("HTTP") + b"\x04\x02\0\0" + text("c")), b""),
        (packet(0x10, b"\0\4"), b""),
        (b"\x10\xff\xff\xff\xff\x01", b""),
        (packet(0x10, bytes(limits.MQTT_CONNECT + 1))[:100], b""),
    ],
)
@in_loop
async def test_before_the_login(data: bytes, answer: bytes) -> None:
    async with running(local()) as (broker, (address,)):
        peer = await Peer.open(address)
        peer.send(data)
        assert await peer.reader.read() == answer
        while broker.connections:
            await asyncio.sleep(0.01)


@in_loop
async def test_the_length_of_connect() -> None:
    async with running(local()) as (_, (address,)):
        rest = len(connect("c", will=Will("t", b""))) - 2
        fits = await Peer.open(address)
        fits.send(connect("c", will=Will("t", bytes(limits.MQTT_CONNECT - rest))))
        assert (await fits.packet(CONNACK)).rest[1] == 0
        longer = await Peer.open(address)
        longer.send(connect("d", will=Will("t", bytes(limits.MQTT_CONNECT - rest + 1))))
        assert await longer.reader.read() == b""


@in_loop
async def test_a_stranger_has_little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HELLO_SECONDS", 0.1)
    async with running(local()) as (_, (address,)):
        peer = await Peer.open(address)
        peer.send(connect("c")[:5])
        assert await peer.reader.read() == b""


@in_loop
async def test_the_length_of_a_packet() -> None:
    settings = local(max_message_size=limits.FRAME_LEAST)
    most = limits.FRAME_LEAST - limits.MQTT_HEAD_ROOM
    async with running(settings) as (_, (address,)):
        receiver, sender = await Peer.connect(address), await Peer.connect(address)
        assert sender.granted[Property.MAXIMUM_PACKET_SIZE] == most
        await receiver.subscribe("t")
        sender.send(publish("t", bytes(most - 4)))
        assert [len(body) for body in await receiver.bodies(1)] == [most - 4]
        sender.send(publish("t", bytes(most - 3))[:100])
        assert await sender.ended() == Reason.PACKET_TOO_LARGE


@in_loop
async def test_a_client_without_rights(tmp_path: Path) -> None:
    write_users(tmp_path / "users")
    async with running(local(users=tmp_path / "users")) as (_, (address,)):
        refused = await Peer.open(address)
        refused.send(connect("c", user="all", password="wrong"))
        assert (await refused.packet(CONNACK)).rest[1] == Reason.BAD_USER_OR_PASSWORD
        refused = await Peer.open(address, 4)
        refused.send(connect("c", 4))
        assert (await refused.packet(CONNACK)).rest == b"\0\x04"
        allowed = await Peer.connect(address, "a", user="all", password=PASSWORD)
        assert await allowed.subscribe("shop/orders", options=1) == [1]
        nobody = await Peer.connect(address, "n", user="nobody", password=PASSWORD)
        assert await nobody.subscribe("shop/orders") == [Reason.NOT_AUTHORIZED]
        assert await nobody.publish("shop/orders", b"no") == Reason.NOT_AUTHORIZED
        nobody.send(publish("shop/orders", b"no"), publish("shop/orders", b"no", retain=True))
        assert await nobody.nothing()
        with_will = await Peer.open(address)
        with_will.send(connect("w", user="nobody", password=PASSWORD, will=Will("shop/orders", b"no")))
        assert (await with_will.packet(CONNACK)).rest[1] == Reason.NOT_AUTHORIZED
        old = await Peer.connect(address, "o", 4, user="nobody", password=PASSWORD)
        old.send(publish("shop/orders", b"no", 1, 1, version=4))
        assert await old.ended() is None
        assert await allowed.nothing()
        same_id = await Peer.connect(address, "a", user="nobody", password=PASSWORD)
        assert await same_id.nothing()
        assert await allowed.nothing()


def test_the_table_of_rights_has_every_packet_of_a_client() -> None:
    named = {name: getattr(packets, name) for name in MQTT}
    assert {*named.values()} == {kind for kind in _FLAGS if kind != packets.AUTH} | {packets.PUBLISH}
    assert {name for made in MQTT.values() for name in made} <= {*FRAMES, *ADMIN_REQUESTS}


@in_loop
async def test_over_websocket() -> None:
    async with running(local()) as (_, (address,)):
        web = await Web.open(address, ("mqtt",))
        assert web.subprotocol == "mqtt"
        data = connect("w") + publish("t", b"hello", 1, 7)
        web.write(data[:9], binary=True)
        web.write(data[9:], binary=True)
        got = b""
        while not got.endswith(acknowledge(PUBACK, 7, Reason.NO_MATCHING_SUBSCRIBERS)):
            part = await web.message()
            assert isinstance(part, bytes)
            got += part
        assert got.startswith(b"\x20")


def _said(chance: random.Random) -> bytes:
    topic = chance.choice(("a", "a/b", "$queue/q", "$SYS/x", "a/#", ""))
    number = chance.randrange(1, 5)
    body = chance.randbytes(chance.randrange(6))
    properties: Properties = chance.choice(({}, {Property.USER_PROPERTY: [("k", "v")]}, {Property.TOPIC_ALIAS: number}))
    filters = chance.choice(("a", "#", "+/b", "$share/g/a", "$queue/q", "a/#/b"))
    options = chance.choice((0, 1, 2, 4, 8, 0x10, 0x20))
    return chance.choice((
        publish(topic, body, properties=properties) * chance.choice((1, 20)),
        publish("a", body, chance.choice((1, 2)), number, retain=chance.random() < 0.2, properties=properties),
        packet(0x82, number.to_bytes(2, "big") + b"\0" + text(filters) + bytes((options,))),
        packet(0xA2, number.to_bytes(2, "big") + b"\0" + text(filters)),
        acknowledge(chance.choice((PUBACK, PUBREC, PUBREL, PUBCOMP)), chance.randrange(1, 65536)),
        acknowledge(PUBREL, number), b"\xc0\0",
    ))  # fmt: skip


def _talk(broker: Broker, chance: random.Random) -> None:
    socket, protocol = Socket(), MqttServerConnection(broker)
    protocol.connection_made(socket)
    kept: Properties = {Property.SESSION_EXPIRY: chance.choice((0, 100))}
    protocol.data_received(connect(chance.choice("abc"), clean=chance.random() < 0.5, properties=kept))
    assert socket.written[:1] == b"\x20"
    said = b"".join([_said(chance) for _ in range(30)])
    if chance.random() < 0.5:
        at = chance.randrange(len(said))
        said = said[:at] + chance.randbytes(1) + said[at + chance.randrange(2) :]
    while said and socket.open:
        size = chance.choice((1, 7, 60, 10_000))
        protocol.data_received(said[:size])
        said = said[size:]
    protocol.connection_lost(None)


@pytest.mark.parametrize("seed", range(3))
@in_loop
async def test_whatever_is_said(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TURN_NS", 10**12)
    async with running(local(data=tmp_path / "data")) as (broker, (address,)):
        for number in range(40):
            _talk(broker, random.Random(seed * 1000 + number))
            await asyncio.sleep(0)
        assert not broker.failure.done()
        assert not broker.connections
        peer = await Peer.connect(address, "honest")
        await peer.subscribe("still-here")
        await peer.publish("still-here", b"x", dup=False)
        assert (await peer.message()).body == b"x"


@in_loop
async def test_sessions_take_a_part_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = local()
    monkeypatch.setattr(limits, "MQTT_STATE_SHARE", settings.memory_limit // 20_000)
    kept: dict[str, Any] = {"clean": False, "properties": {Property.SESSION_EXPIRY: 1000}}
    async with running(settings) as (_, (address,)):
        first, later = await Peer.connect(address, "first", **kept), {Property.WILL_DELAY: 1000}
        for number in range(100):
            peer = await Peer.open(address)
            peer.send(connect(f"more-{number}", will=Will("t", bytes(1000), properties=later), **kept))
            reason = (await peer.packet(CONNACK)).rest[1]
            peer.cut()
            if reason:
                break
        assert reason == Reason.QUOTA_EXCEEDED
        old = await Peer.open(address, 4)
        old.send(connect("old", 4, clean=False))
        assert (await old.packet(CONNACK)).rest == b"\0\x03"
        # A session has room for no more packet ids, which messages with QoS 2 need.
        first.send(publish("t", b"x", 2, 7))
        assert (await first.packet(PUBREC)).rest[:3] == b"\0\x07" + bytes((Reason.QUOTA_EXCEEDED,))
        assert await first.publish("t", b"x") == 0
        # Those that are there go on, as do clients whose session ends with their connection.
        assert (await Peer.connect(address, "more-1", **kept)).session_present
        assert await (await Peer.connect(address, "short")).publish("t", b"x") == 0
        # A session that ends makes room.
        for left in range(number):
            await Peer.connect(address, f"more-{left}")
        first.send(publish("t", b"x", 2, 7))
        assert (await first.packet(PUBREC)).rest[:2] == b"\0\x07"
        first.send(acknowledge(PUBREL, 7))
        assert (await first.packet(PUBCOMP)).rest == b"\0\x07"


@in_loop
async def test_a_client_that_connects_while_the_broker_ends(tmp_path: Path) -> None:
    async with running(local(data=tmp_path / "data")) as (broker, _):
        pass
    socket, protocol = Socket(), MqttServerConnection(broker)
    protocol.connection_made(socket)
    protocol.data_received(connect("late", clean=False, properties={Property.SESSION_EXPIRY: 100}))
    assert not broker.failure.done()
    assert not broker.connections
    assert not socket.open


def test_few_messages_with_qos_2_are_handled_at_once() -> None:
    """The broker stores something for each of them, so others must have their turn in between."""
    bodies = b"".join(b"%04d" % number for number in range(1000))
    run = PublishRun(2 << 1, False, b"t", b"", [*range(1, 1001)], 1000, bodies)
    parts = [*parts_of(run)]
    assert max(part.rows for part in parts) == STORED_TOGETHER
    assert sum(part.rows for part in parts) == 1000
    assert [number for part in parts for number in part.ids] == run.ids
    assert b"".join(part.bodies for part in parts) == bodies
    assert [*parts_of(run._replace(flags=1 << 1))] == [run._replace(flags=1 << 1)]


@in_loop
async def test_many_messages_with_qos_2_in_one_read(tmp_path: Path) -> None:
    kept: dict[str, Any] = {"clean": False, "properties": {Property.SESSION_EXPIRY: 1000}}
    async with running(local(data=tmp_path / "data")) as (_, (address,)):
        peer, ids = await Peer.connect(address, "many", **kept), [*range(1, 1001)]
        peer.send(b"".join(publish("t", b"x", 2, number) for number in ids))
        assert [int.from_bytes((await peer.packet(PUBREC)).rest[:2], "big") for _ in ids] == ids
        peer.send(b"".join(acknowledge(PUBREL, number) for number in ids))
        assert [int.from_bytes((await peer.packet(PUBCOMP)).rest[:2], "big") for _ in ids] == ids
