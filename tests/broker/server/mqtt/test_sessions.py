"""Sessions: what is kept without a connection, for how long; wills; the client id; keep alive."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker.server.raw_client import in_loop, local
from mqlab.broker import limits
from mqlab.broker.server.startup import running
from mqlab.wire.address import Address
from mqlab.wire.mqtt.properties import Property
from mqlab.wire.mqtt.reasons import Reason

from .mqtt_client import (
    CONNACK,
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    Peer,
    Will,
    acknowledge,
    connect,
    publish,
)  # fmt: skip

KEPT: dict[str, Any] = {"clean": False, "properties": {Property.SESSION_EXPIRY: 1000}}


async def kept(address: Address, client_id: str = "kept", version: int = 5) -> Peer:
    return await Peer.connect(address, client_id, version, **(KEPT if version == 5 else {"clean": False}))


@pytest.mark.parametrize("version", [4, 5])
@in_loop
async def test_a_session_is_kept_without_a_connection(version: int) -> None:
    async with running(local()) as (_, (address,)):
        peer = await kept(address, version=version)
        assert not peer.session_present
        await peer.subscribe("t", options=1)
        peer.cut()
        sender = await Peer.connect(address)
        await sender.publish("t", b"meanwhile")
        peer = await kept(address, version=version)
        assert peer.session_present
        message = await peer.message()
        assert (message.body, message.dup) == (b"meanwhile", False)
        peer.cut()
        peer = await kept(address, version=version)
        again = await peer.message()
        assert (again.body, again.dup, again.packet_id) == (b"meanwhile", True, message.packet_id)
        peer.send(acknowledge(PUBACK, again.packet_id))
        assert await peer.nothing()
        peer.cut()
        fresh = await Peer.connect(address, "kept", version)
        assert not fresh.session_present
        await sender.publish("t", b"nobody")
        assert await fresh.nothing()


@in_loop
async def test_a_session_expires() -> None:
    async with running(local()) as (broker, (address,)):
        short: dict[str, Any] = {"clean": False, "properties": {Property.SESSION_EXPIRY: 1}}
        peer = await Peer.connect(address, "short", **short)
        await peer.subscribe("t", options=1)
        assert broker.core.destinations.routing.durable
        peer.cut()
        while broker.core.destinations.routing.durable:
            await asyncio.sleep(0.05)
        assert not (await Peer.connect(address, "short", **short)).session_present


@in_loop
async def test_disconnect_may_shorten_the_life_of_a_session() -> None:
    async with running(local()) as (_, (address,)):
        peer = await kept(address)
        await peer.disconnect(properties={Property.SESSION_EXPIRY: 0})
        assert not (await kept(address)).session_present
        peer = await Peer.connect(address, "clean")
        peer.send(b"\xe0\x07\0\x05\x11\0\0\0\x01")
        assert await peer.ended() == Reason.PROTOCOL_ERROR


@in_loop
async def test_a_client_that_connects_again_takes_over() -> None:
    async with running(local()) as (_, (address,)):
        first = await kept(address)
        await first.subscribe("t", options=1)
        second = await kept(address)
        assert second.session_present
        assert await first.ended() == Reason.SESSION_TAKEN_OVER
        await second.publish("t", b"x")
        assert (await second.message()).body == b"x"


@in_loop
async def test_the_broker_says_that_it_ends() -> None:
    async with running(local()) as (_, (address,)):
        peer = await Peer.connect(address)
    assert await peer.ended() == Reason.SERVER_SHUTTING_DOWN


@in_loop
async def test_the_handshake_of_qos_2_goes_on_in_the_next_connection() -> None:
    async with running(local()) as (_, (address,)):
        peer = await kept(address)
        await peer.subscribe("t", options=2)
        sender = await kept(address, "sender")
        sender.send(publish("t", b"x", 2, 9))
        await sender.packet(PUBREC)
        sender.cut()
        sender = await kept(address, "sender")
        sender.send(publish("t", b"x", 2, 9, dup=True))
        await sender.packet(PUBREC)
        sender.send(acknowledge(PUBREL, 9))
        assert (await sender.packet(PUBCOMP)).rest == b"\0\x09"
        message = await peer.message()
        peer.send(acknowledge(PUBREC, message.packet_id))
        await peer.packet(PUBREL)
        peer.cut()
        peer = await kept(address)
        assert int.from_bytes((await peer.packet(PUBREL)).rest, "big") == message.packet_id
        peer.send(acknowledge(PUBCOMP, message.packet_id))
        assert await peer.nothing()


@in_loop
async def test_a_will_is_published_unless_the_client_says_that_it_ends() -> None:
    async with running(local()) as (_, (address,)):
        watcher = await Peer.connect(address)
        await watcher.subscribe("wills/#", options=1)
        properties = {Property.USER_PROPERTY: [("k", "v")]}
        cut = await Peer.connect(address, "a", will=Will("wills/a", b"cut", 1, True, properties))
        normal = await Peer.connect(address, "b", will=Will("wills/b", b"never"))
        with_will = await Peer.connect(address, "c", will=Will("wills/c", b"wanted"))
        await normal.disconnect()
        await with_will.disconnect(Reason.DISCONNECT_WITH_WILL)
        assert (await watcher.message()).body == b"wanted"
        cut.cut()
        message = await watcher.message()
        assert (message.topic, message.body, message.qos) == ("wills/a", b"cut", 1)
        assert message.properties == properties
        late = await Peer.connect(address)
        await late.subscribe("wills/#")
        kept_one = await late.message()
        assert (kept_one.body, kept_one.retain) == (b"cut", True)


@in_loop
async def test_a_will_waits_and_is_not_needed_if_the_client_comes_back() -> None:
    async with running(local()) as (_, (address,)):
        watcher = await Peer.connect(address)
        await watcher.subscribe("wills/#")
        long, short = ({Property.WILL_DELAY: seconds} for seconds in (600, 1))
        back = await Peer.connect(address, "back", **KEPT, will=Will("wills/back", b"no", properties=long))
        gone = await Peer.connect(address, "gone", **KEPT, will=Will("wills/gone", b"yes", properties=short))
        ended = await Peer.connect(address, "ended", **KEPT, will=Will("wills/ended", b"at once", properties=long))
        for peer in (back, gone, ended):
            peer.cut()
        back = await Peer.connect(address, "back", **KEPT)
        await Peer.connect(address, "ended")
        assert await watcher.bodies(2) == [b"at once", b"yes"]
        await back.disconnect()
        assert await watcher.nothing()


@pytest.mark.parametrize("version", [4, 5])
@in_loop
async def test_a_will_without_delay_is_published_when_another_connection_takes_over(version: int) -> None:
    async with running(local()) as (_, (address,)):
        watcher = await Peer.connect(address)
        await watcher.subscribe("wills/#")
        options: dict[str, Any] = KEPT if version == 5 else {"clean": False}
        first = await Peer.connect(address, "kept", version, **options, will=Will("wills/1", b"first"))
        second = await Peer.connect(address, "kept", version, **options, will=Will("wills/2", b"second"))
        assert second.session_present
        await first.ended()
        assert await watcher.bodies(1) == [b"first"]
        second.cut()
        assert await watcher.bodies(1) == [b"second"]
        await Peer.connect(address, "kept", version, **options)
        assert await watcher.nothing()


@in_loop
async def test_a_client_without_an_id_gets_one() -> None:
    async with running(local()) as (_, (address,)):
        names = {(await Peer.connect(address)).granted[Property.ASSIGNED_CLIENT_ID] for _ in range(2)}
        assert len(names) == 2
        assert all(names)


@in_loop
async def test_keep_alive() -> None:
    async with running(local()) as (_, (address,)):
        asks = await Peer.connect(address, keep_alive=limits.MQTT_KEEP_ALIVE + 1)
        assert asks.granted[Property.SERVER_KEEP_ALIVE] == limits.MQTT_KEEP_ALIVE
        fine = await Peer.connect(address, keep_alive=limits.MQTT_KEEP_ALIVE)
        assert Property.SERVER_KEEP_ALIVE not in fine.granted
        silent = await Peer.connect(address, keep_alive=1)
        assert await silent.ended() == Reason.KEEP_ALIVE_TIMEOUT


@in_loop
async def test_subscriptions_of_a_session_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MQTT_SUBSCRIPTIONS", 2)
    async with running(local()) as (_, (address,)):
        peer = await Peer.connect(address)
        assert await peer.subscribe("a", "b", "a", "c") == [0, 0, 0, Reason.QUOTA_EXCEEDED]


@in_loop
async def test_a_slow_client_has_few_messages_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MQTT_PREFETCH", 5)
    async with running(local()) as (broker, (address,)):
        slow = await kept(address)
        await slow.subscribe("t", options=1)
        sender = await Peer.connect(address)
        for number in range(8):
            await sender.publish("t", b"%d" % number)
        assert await slow.bodies(5) == [b"%d" % number for number in range(5)]
        assert await slow.nothing()
        [queue] = broker.core.destinations.routing.durable.values()
        assert queue.messages == 8


@in_loop
async def test_all_of_it_is_there_after_a_restart(tmp_path: Path) -> None:
    """Without a crash; see `test_kill` for one."""
    settings = local(data=tmp_path / "data")
    async with running(settings) as (_, (address,)):
        peer = await kept(address)
        await peer.subscribe("t/#", options=2, identifier=3)
        sender = await Peer.connect(address)
        await sender.publish("t/1", b"kept", retain=True)
        message = await peer.message()
    async with running(settings) as (_, (address,)):
        peer = await kept(address)
        assert peer.session_present
        again = await peer.message()
        assert (again.body, again.packet_id, again.properties) == (
            b"kept",
            message.packet_id,
            {Property.SUBSCRIPTION_ID: 3},
        )
        late = await Peer.connect(address)
        await late.subscribe("t/1")
        assert (await late.message()).retain


@pytest.mark.parametrize("client_id", ["x" * 256, "a\tb", " a"])
@in_loop
async def test_a_client_id_that_is_not_valid(client_id: str) -> None:
    async with running(local()) as (_, (address,)):
        peer = await Peer.open(address)
        peer.send(connect(client_id))
        assert (await peer.packet(CONNACK)).rest[1] == Reason.CLIENT_ID_NOT_VALID
