"""Messages of MQTT clients: QoS, properties, subscriptions with their options, retained messages."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker.server.raw_client import client, in_loop, local
from mqlab.broker import limits
from mqlab.broker.server.startup import running
from mqlab.wire.mqtt.properties import Property
from mqlab.wire.mqtt.reasons import Reason

from .mqtt_client import (
    CONNACK,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    Peer,
    Properties,
    acknowledge,
    connect,
    publish,
)  # fmt: skip

NO_LOCAL, AS_PUBLISHED = 4, 8
ONLY_NEW, NO_RETAINED = 0x10, 0x20


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("stored", [False, True])
@in_loop
async def test_each_qos_in_both_directions(version: int, stored: bool, tmp_path: Path) -> None:
    async with running(local(data=tmp_path / "data" if stored else None)) as (_, (address,)):
        receiver = await Peer.connect(address, "r", version)
        assert await receiver.subscribe("a/+", options=2) == [2]
        sender = await Peer.connect(address, "s", version)
        sender.send(publish("a/0", b"0", version=version))
        sender.send(publish("a/1", b"1", 1, 10, version=version))
        assert await sender.packet() == (PUBACK, 0, b"\0\x0a")
        sender.send(publish("a/2", b"2", 2, 11, version=version))
        assert await sender.packet() == (PUBREC, 0, b"\0\x0b")
        sender.send(acknowledge(PUBREL, 11))
        assert await sender.packet() == (PUBCOMP, 0, b"\0\x0b")
        messages = [await receiver.message() for _ in range(3)]
        assert [(message.topic, message.body, message.qos) for message in messages] == [
            ("a/0", b"0", 0), ("a/1", b"1", 1), ("a/2", b"2", 2),
        ]  # fmt: skip
        receiver.send(acknowledge(PUBACK, messages[1].packet_id), acknowledge(PUBREC, messages[2].packet_id))
        assert await receiver.packet() == (PUBREL, 2, messages[2].packet_id.to_bytes(2, "big"))
        receiver.send(acknowledge(PUBCOMP, messages[2].packet_id))
        assert await receiver.nothing()


@in_loop
async def test_a_subscription_s_qos_is_the_most() -> None:
    async with running(local()) as (_, (address,)):
        receiver = await Peer.connect(address)
        await receiver.subscribe("zero", options=0)
        await receiver.subscribe("one", options=1)
        sender = await Peer.connect(address)
        sender.send(publish("zero", b"x", 1, 1), publish("one", b"x", 2, 2))
        assert [(await receiver.message()).qos for _ in range(2)] == [0, 1]


@in_loop
async def test_a_message_with_qos_2_that_comes_twice_is_one() -> None:
    async with running(local()) as (_, (address,)):
        receiver, sender = await Peer.connect(address), await Peer.connect(address)
        await receiver.subscribe("t")
        sender.send(publish("t", b"once", 2, 5), publish("t", b"once", 2, 5, dup=True), publish("t", b"other", 2, 6))
        assert [(await sender.packet(PUBREC)).rest[1] for _ in range(3)] == [5, 5, 6]
        assert await receiver.bodies(2) == [b"once", b"other"]
        sender.send(acknowledge(PUBREL, 5), acknowledge(PUBREL, 5))
        assert (await sender.packet(PUBCOMP)).rest == b"\0\x05"
        assert (await sender.packet(PUBCOMP)).rest == b"\0\x05" + bytes((Reason.PACKET_ID_NOT_FOUND,))
        sender.send(publish("t", b"again", 2, 5))
        assert await receiver.bodies(1) == [b"again"]


@in_loop
async def test_thousands_of_messages_in_one_read(tmp_path: Path) -> None:
    async with running(local(data=tmp_path / "data")) as (_, (address,)):
        receiver, sender = await Peer.connect(address, "r"), await Peer.connect(address, "s")
        await receiver.subscribe("t", options=1)
        sender.send(*(publish("t", b"%05d" % number, number % 2, number + 1) for number in range(2000)))
        acknowledged = [int.from_bytes((await sender.packet(PUBACK)).rest[:2], "big") for _ in range(1000)]
        assert acknowledged == [number + 1 for number in range(2000) if number % 2]
        bodies = []
        for _ in range(2000):
            message = await receiver.message()
            bodies.append(int(message.body))
            if message.qos:
                receiver.send(acknowledge(PUBACK, message.packet_id))
        assert bodies == [*range(2000)]


@in_loop
async def test_properties_arrive_as_they_were_sent() -> None:
    async with running(local()) as (_, (address,)):
        receiver, sender = await Peer.connect(address), await Peer.connect(address)
        await receiver.subscribe("t")
        sent: Properties = {
            Property.PAYLOAD_FORMAT: 1, Property.MESSAGE_EXPIRY: 100, Property.CONTENT_TYPE: "text/plain",
            Property.RESPONSE_TOPIC: "answers/1", Property.CORRELATION_DATA: b"\xff\0",
            Property.USER_PROPERTY: [("k", "1"), ("a-b.c", "é"), ("k", "2"), ("priority", "7"), ("", "x")],
        }  # fmt: skip
        sender.send(publish("t", b"x", properties=sent))
        got = (await receiver.message()).properties
        pairs = got.pop(Property.USER_PROPERTY)
        assert sorted(pairs) == sorted(sent.pop(Property.USER_PROPERTY))
        assert got.pop(Property.MESSAGE_EXPIRY) in range(98, 101)
        del sent[Property.MESSAGE_EXPIRY]
        assert got == sent


@in_loop
async def test_a_message_that_has_expired_is_not_delivered() -> None:
    async with running(local()) as (_, (address,)):
        kept: dict[str, Any] = {"client_id": "r", "clean": False, "properties": {Property.SESSION_EXPIRY: 100}}
        receiver = await Peer.connect(address, **kept)
        await receiver.subscribe("t", options=1)
        await receiver.disconnect()
        sender = await Peer.connect(address)
        await sender.publish("t", b"short", properties={Property.MESSAGE_EXPIRY: 1})
        await sender.publish("t", b"long")
        await asyncio.sleep(1.2)
        receiver = await Peer.connect(address, **kept)
        assert receiver.session_present
        assert await receiver.bodies(1) == [b"long"]


@in_loop
async def test_subscription_options_and_identifiers() -> None:
    async with running(local()) as (_, (address,)):
        peer, other = await Peer.connect(address), await Peer.connect(address)
        await peer.subscribe("t/own", options=NO_LOCAL)
        await peer.subscribe("t/#", identifier=7)
        await peer.subscribe("u", options=AS_PUBLISHED, identifier=300)
        peer.send(publish("t/own", b"own"))
        own = await peer.message()
        assert (own.body, own.properties) == (b"own", {Property.SUBSCRIPTION_ID: 7})
        other.send(publish("u", b"kept", retain=True))
        kept = await peer.message()
        assert (kept.retain, kept.properties) == (True, {Property.SUBSCRIPTION_ID: 300})
        await peer.subscribe("u", options=NO_RETAINED)
        other.send(publish("u", b"kept", retain=True))
        later = await peer.message()
        assert (later.retain, later.properties) == (False, {})
        assert await peer.unsubscribe("u", "none") == [0, Reason.NO_SUBSCRIPTION_EXISTED]
        other.send(publish("u", b"gone"))
        assert await other.nothing()
        assert await peer.nothing()


@pytest.mark.parametrize(
    ("written", "matching", "others"),
    [
        ("a/+/c", ["a/b/c", "a//c"], ["a/c", "a/b/c/d", "x/b/c"]),
        ("a/#", ["a", "a/b", "a/b/c"], ["b", "ab"]),
        ("+", ["a", "x.y"], ["a/b", "/a"]),
        ("/+", ["/a"], ["a", "a/b"]),
        ("a.b/*", ["a.b/*"], ["a/b", "a.b/c"]),
        ("#", ["a", "/"], ["$own/a"]),
        ("$own/#", ["$own/a"], ["own/a"]),
    ],
)
@in_loop
async def test_wildcards(written: str, matching: list[str], others: list[str]) -> None:
    async with running(local()) as (_, (address,)):
        receiver, sender = await Peer.connect(address), await Peer.connect(address)
        assert await receiver.subscribe(written) == [0]
        sender.send(*(publish(topic, topic.encode()) for topic in (*others, *matching)))
        got = [await receiver.message() for _ in matching]
        assert [(message.topic, message.body.decode()) for message in got] == [(topic, topic) for topic in matching]


@pytest.mark.parametrize("written", ["", "a#", "a/#/b", "a+/b", "$share/g", "$share//t", "$share/+/t", "x" * 300, " a"])
@in_loop
async def test_a_filter_that_is_not_valid(written: str) -> None:
    async with running(local()) as (_, (address,)):
        peer = await Peer.connect(address)
        assert await peer.subscribe("fine", written) == [0, Reason.TOPIC_FILTER_INVALID]
        old = await Peer.connect(address, version=4)
        assert await old.subscribe("fine", written) == [0, 0x80]


@in_loop
async def test_a_shared_subscription_gives_each_message_to_one() -> None:
    async with running(local()) as (broker, (address,)):
        peers = [await Peer.connect(address, f"c{number}") for number in range(2)]
        for peer in peers:
            assert await peer.subscribe("$share/group/t/+", options=2) == [1]
        other = await Peer.connect(address)
        await other.subscribe("$share/other/t/+")
        sender = await Peer.connect(address)
        for number in range(20):
            sender.send(publish(f"t/{number}", b"%d" % number))
            await sender.nothing()
        assert await other.bodies(20) == [b"%d" % number for number in range(20)]
        shares = await asyncio.gather(*(_all(peer) for peer in peers))
        assert sorted(int(body) for share in shares for body in share) == [*range(20)]
        assert all(shares)
        for peer in (*peers, other):
            await peer.disconnect()
        assert not broker.core.destinations.routing.durable


async def _all(peer: Peer) -> list[bytes]:
    """What has come by now."""
    peer.send(b"\xc0\0")
    bodies = []
    while (packet := await peer.packet()).kind == PUBLISH:
        bodies.append(peer.parsed(packet).body)
    return bodies


@in_loop
async def test_topic_aliases_in_both_directions() -> None:
    async with running(local()) as (_, (address,)):
        receiver = await Peer.connect(address, properties={Property.TOPIC_ALIAS_MAXIMUM: 1})
        sender = await Peer.connect(address)
        assert sender.granted[Property.TOPIC_ALIAS_MAXIMUM] == limits.MQTT_TOPIC_ALIASES
        await receiver.subscribe("t/#")
        alias: Properties = {Property.TOPIC_ALIAS: limits.MQTT_TOPIC_ALIASES}
        sender.send(publish("t/long", b"1", properties=alias), publish("", b"2", properties=alias))
        sender.send(publish("t/other", b"3", properties=alias), publish("", b"4", properties=alias))
        got = [await receiver.message() for _ in range(4)]
        assert [(message.topic, message.body) for message in got] == [
            ("t/long", b"1"), ("", b"2"), ("t/other", b"3"), ("t/other", b"4"),
        ]  # fmt: skip
        assert [message.properties.get(Property.TOPIC_ALIAS) for message in got] == [1, 1, None, None]


@pytest.mark.parametrize(
    ("topic", "alias", "reason"),
    [
        ("", 1, Reason.PROTOCOL_ERROR),
        ("t", 0, Reason.TOPIC_ALIAS_INVALID),
        ("t", limits.MQTT_TOPIC_ALIASES + 1, Reason.TOPIC_ALIAS_INVALID),
    ],
)
@in_loop
async def test_a_topic_alias_that_is_not_valid(topic: str, alias: int, reason: Reason) -> None:
    async with running(local()) as (_, (address,)):
        peer = await Peer.connect(address)
        peer.send(publish(topic, b"x", properties={Property.TOPIC_ALIAS: alias}))
        assert await peer.ended() == reason


@in_loop
async def test_no_more_messages_are_under_way_than_the_client_takes() -> None:
    async with running(local()) as (_, (address,)):
        receiver = await Peer.connect(address, properties={Property.RECEIVE_MAXIMUM: 2})
        sender = await Peer.connect(address)
        await receiver.subscribe("t", "u", options=1)
        for number in range(6):
            assert await sender.publish("tu"[number % 2], b"%d" % number) == 0
        first = [await receiver.message() for _ in range(2)]
        assert await receiver.nothing()
        receiver.send(acknowledge(PUBACK, first[0].packet_id))
        third = await receiver.message()
        assert await receiver.nothing()
        got = [*first, third]
        for _ in range(3):
            receiver.send(acknowledge(PUBACK, got[-2].packet_id), acknowledge(PUBACK, got[-1].packet_id))
            if len(got) < 6:
                got.append(await receiver.message())
        assert sorted(message.body for message in got) == [b"%d" % number for number in range(6)]


@in_loop
async def test_a_client_that_sends_more_than_the_broker_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MQTT_RECEIVE_MAXIMUM", 3)
    async with running(local()) as (_, (address,)):
        peer = await Peer.connect(address)
        assert peer.granted[Property.RECEIVE_MAXIMUM] == 3
        peer.send(*(publish("t", b"x", 2, number) for number in (1, 2, 3)))
        for _ in range(3):
            await peer.packet(PUBREC)
        assert await peer.nothing()
        peer.send(publish("t", b"x", 2, 4))
        assert await peer.ended() == Reason.RECEIVE_MAXIMUM_EXCEEDED


@in_loop
async def test_a_message_that_the_client_cannot_take_is_left_out() -> None:
    async with running(local()) as (_, (address,)):
        receiver = await Peer.connect(address, properties={Property.MAXIMUM_PACKET_SIZE: 40})
        sender = await Peer.connect(address)
        await receiver.subscribe("t", options=1)
        for body in (b"x" * 100, b"short", b"y" * 100, b"last"):
            await sender.publish("t", body)
        assert await receiver.bodies(2) == [b"short", b"last"]
        assert await receiver.nothing()


@pytest.mark.parametrize("properties", [{}, {Property.CONTENT_TYPE: "text"}], ids=["alike", "singly"])
@in_loop
async def test_a_message_that_is_left_out_tells_the_client_no_alias(properties: Properties) -> None:
    async with running(local()) as (_, (address,)):
        most: Properties = {Property.MAXIMUM_PACKET_SIZE: 40, Property.TOPIC_ALIAS_MAXIMUM: 1}
        receiver, sender = await Peer.connect(address, properties=most), await Peer.connect(address)
        await receiver.subscribe("t/#")
        bodies = (b"x" * 100, b"first", b"y" * 100, b"second")
        sender.send(*(publish("t/1", body, properties=properties) for body in bodies))
        got = [await receiver.message() for _ in range(2)]
        assert [(message.topic, message.body, message.properties[Property.TOPIC_ALIAS]) for message in got] == [
            ("t/1", b"first", 1), ("", b"second", 1),
        ]  # fmt: skip
        sender.send(publish("t/1", b"in another batch", properties=properties))
        assert (await receiver.message()).topic == ""


@pytest.mark.parametrize("stored", [False, True])
@in_loop
async def test_retained_messages(stored: bool, tmp_path: Path) -> None:
    async with running(local(data=tmp_path / "data" if stored else None)) as (_, (address,)):
        sender = await Peer.connect(address)
        await sender.publish("r/1", b"old", retain=True)
        await sender.publish("r/1", b"new", retain=True, properties={Property.USER_PROPERTY: [("k", "v")]})
        await sender.publish("r/2", b"gone", retain=True)
        await sender.publish("r/2", b"", retain=True)
        await sender.publish("r/3", b"short", retain=True, properties={Property.MESSAGE_EXPIRY: 1})
        await asyncio.sleep(1.1)
        receiver = await Peer.connect(address)
        await receiver.subscribe("r/#", options=1)
        message = await receiver.message()
        assert (message.topic, message.body, message.qos, message.retain) == ("r/1", b"new", 1, True)
        assert message.properties == {Property.USER_PROPERTY: [("k", "v")]}
        receiver.send(acknowledge(PUBACK, message.packet_id))
        assert await receiver.nothing()
        await receiver.subscribe("r/#", options=ONLY_NEW)
        assert await receiver.nothing()
        await receiver.subscribe("r/#")
        assert (await receiver.message()).body == b"new"
        await receiver.subscribe("+/1", options=NO_RETAINED)
        await receiver.subscribe("$share/g/r/#")
        assert await receiver.nothing()


@in_loop
async def test_retained_messages_take_a_part_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MQTT_STATE_SHARE", 1 << 20)
    settings = local()
    most = settings.memory_limit >> 20
    async with running(settings) as (_, (address,)):
        sender = await Peer.connect(address)
        assert await sender.publish("a", bytes(most // 2), retain=True) == 0
        assert await sender.publish("b", bytes(most), retain=True) == Reason.QUOTA_EXCEEDED
        assert await sender.publish("a", b"", retain=True) == 0
        assert await sender.publish("b", bytes(most // 2), retain=True) == 0


@in_loop
async def test_what_the_broker_says_of_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MQTT_SYS_SECONDS", 0.05)
    async with running(local()) as (_, (address,)):
        peer = await Peer.connect(address)
        await peer.subscribe("$SYS/broker/clients/connected")
        first = await peer.message()
        assert (first.topic, first.body, first.retain) == ("$SYS/broker/clients/connected", b"1", True)
        again = await peer.message()
        assert (again.topic, again.retain) == (first.topic, False)
        assert await peer.publish("$SYS/broker/clients/connected", b"9") == Reason.NOT_AUTHORIZED


@in_loop
async def test_messages_cross_between_native_and_mqtt_clients(tmp_path: Path) -> None:
    async with running(local(data=tmp_path / "data")) as (_, (address,)):
        peer = await Peer.connect(address)
        await peer.subscribe("prices/+", options=1)
        await peer.subscribe("$queue/orders", options=1)
        connection = await client(address)
        session = await connection.session()
        consumer = await session.consumer("topic:prices.gold")
        producer = await session.producer("topic:prices.gold")
        await producer.send(
            b"1", correlation_id="c", reply_to="queue:answers", properties={"n": 5, "ok": True}, persistent=True
        )
        got = await peer.message()
        assert (got.topic, got.body, got.qos) == ("prices/gold", b"1", 1)
        pairs = dict(got.properties[Property.USER_PROPERTY])
        assert (pairs["n"], pairs["ok"]) == ("5", "true")
        assert got.properties[Property.RESPONSE_TOPIC] == "$queue/answers"
        assert got.properties[Property.CORRELATION_DATA] == b"c"
        assert (await consumer.receive()).body == b"1"
        await (await session.producer("queue:orders")).send(b"order")
        assert (await peer.message()).topic == "$queue/orders"
        sent = {
            Property.RESPONSE_TOPIC: "a/b", Property.CORRELATION_DATA: b"id", Property.CONTENT_TYPE: "text/plain",
            Property.USER_PROPERTY: [("k", "v")],
        }  # fmt: skip
        await peer.publish("$queue/back", b"2", properties=sent)
        message = await (await session.consumer("queue:back")).receive()
        assert (message.body, message.correlation_id, message.reply_to) == (b"2", "id", "topic:a.b")
        assert message.properties == {"content_type": "text/plain", "k": "v"}


@in_loop
async def test_sections_of_amqp_are_no_user_property() -> None:
    async with running(local()) as (_, (address,)):
        peer = await Peer.connect(address)
        await peer.subscribe("t")
        session = await (await client(address)).session()
        consumer = await session.consumer("topic:t")
        await (await session.producer("topic:t")).send(b"1", properties={"JMS_AMQP_SECTIONS": "d", "k": "v"})
        pairs = dict((await peer.message()).properties[Property.USER_PROPERTY])
        assert (pairs.get("k"), "JMS_AMQP_SECTIONS" in pairs) == ("v", False)
        assert (await consumer.receive()).body == b"1"
        # A user property of that name reaches MQTT clients, but is never taken for sections.
        sent: Properties = {Property.USER_PROPERTY: [("JMS_AMQP_SECTIONS", "d")]}
        peer.send(publish("t", b"2", properties=sent))
        assert ("JMS_AMQP_SECTIONS", "d") in (await peer.message()).properties[Property.USER_PROPERTY]
        assert "JMS_AMQP_SECTIONS" not in (await consumer.receive()).properties


@in_loop
async def test_a_message_that_nobody_gets_is_acknowledged_as_such() -> None:
    async with running(local()) as (_, (address,)):
        peer = await Peer.connect(address)
        peer.send(publish("t", b"x", 1, 1), publish("t", b"x", 2, 2))
        assert await peer.packet() == (PUBACK, 0, b"\0\x01" + bytes((Reason.NO_MATCHING_SUBSCRIBERS,)))
        assert await peer.packet() == (PUBREC, 0, b"\0\x02" + bytes((Reason.NO_MATCHING_SUBSCRIBERS,)))
        await peer.subscribe("t")
        peer.send(publish("t", b"x", 1, 3))
        assert {await peer.packet(), await peer.packet()} == {(PUBACK, 0, b"\0\x03"), (PUBLISH, 0, b"\0\x01t\0x")}


@in_loop
async def test_an_old_client_gets_no_properties() -> None:
    async with running(local()) as (_, (address,)):
        old, sender = await Peer.connect(address, "old", 4), await Peer.connect(address)
        await old.subscribe("t")
        sender.send(publish("t", b"x", properties={Property.USER_PROPERTY: [("k", "v")]}))
        assert (await old.message()).body == b"x"
        refused = await Peer.open(address)
        refused.send(connect("", 4, clean=False))
        assert (await refused.packet(CONNACK)).rest == b"\0\x02"
