"""What was acknowledged survives a death of the broker: sessions, retained messages, and QoS 1 and 2 under way."""

from pathlib import Path
from typing import Any

from broker.server.raw_client import in_loop
from broker.server.stomp.stomp_clients import Process, broker
from mqlab.wire.address import Address
from mqlab.wire.mqtt.properties import Property

from .mqtt_client import PUBACK, PUBCOMP, PUBREC, PUBREL, Message, Peer, Will, acknowledge, publish

KEPT: dict[str, Any] = {"clean": False, "properties": {Property.SESSION_EXPIRY: 1000}}


async def _kept(process: Process, name: str, **options: Any) -> Peer:
    return await Peer.connect(Address.parse(f"tcp:127.0.0.1:{process.port}"), name, **KEPT, **options)


@in_loop
async def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    data = f"--data={tmp_path / 'data'}"
    with broker(data) as process:
        messages = await _before(process)
    with broker(data) as process:
        await _after(process, messages)


async def _before(process: Process) -> list[Message]:
    receiver, sender = await _kept(process, "receiver"), await _kept(process, "sender")
    willing = await _kept(process, "willing", will=Will("t/will", b"will", 1))
    assert await receiver.subscribe("t/#", options=2, identifier=5) == [2]
    await sender.publish("kept", b"retained", retain=True)
    await sender.publish("gone", b"never", retain=True)
    await sender.publish("gone", b"", retain=True)
    await sender.publish("t/1", b"qos 1")
    # Acknowledged and not released: the client sends it again.
    sender.send(publish("t/2", b"qos 2", 2, 100), publish("t/2", b"released", 2, 101))
    assert [(await sender.packet(PUBREC)).rest for _ in range(2)] == [b"\0\x64", b"\0\x65"]
    sender.send(acknowledge(PUBREL, 101))
    await sender.packet(PUBCOMP)
    messages = [await receiver.message() for _ in range(3)]
    assert [message.body for message in messages] == [b"qos 1", b"qos 2", b"released"]
    # The client has this one, and its PUBCOMP is lost.
    receiver.send(acknowledge(PUBREC, messages[2].packet_id))
    await receiver.packet(PUBREL)
    process.kill()
    assert await willing.reader.read() == b""
    return messages


async def _after(process: Process, messages: list[Message]) -> None:
    sender = await _kept(process, "sender")
    assert sender.session_present
    sender.send(publish("t/2", b"qos 2", 2, 100, dup=True), publish("t/2", b"new", 2, 101))
    assert [(await sender.packet(PUBREC)).rest for _ in range(2)] == [b"\0\x64", b"\0\x65"]
    sender.send(acknowledge(PUBREL, 100), acknowledge(PUBREL, 101))
    assert [(await sender.packet(PUBCOMP)).rest for _ in range(2)] == [b"\0\x64", b"\0\x65"]
    receiver = await _kept(process, "receiver")
    assert receiver.session_present
    assert int.from_bytes((await receiver.packet(PUBREL)).rest, "big") == messages[2].packet_id
    again = [await receiver.message() for _ in range(2)]
    assert [(one.body, one.packet_id, one.properties) for one in again] == [
        (one.body, one.packet_id, {Property.SUBSCRIPTION_ID: 5}) for one in messages[:2]
    ]
    rest = [await receiver.message() for _ in range(2)]
    # The broker publishes the will of a client whose connection ended with it.
    assert sorted(message.body for message in rest) == [b"new", b"will"]
    receiver.send(acknowledge(PUBACK, again[0].packet_id), acknowledge(PUBREC, again[1].packet_id))
    await receiver.packet(PUBREL)
    late = await _kept(process, "late")
    await late.subscribe("kept", "gone", options=1)
    kept = await late.message()
    assert (kept.topic, kept.body, kept.retain) == ("kept", b"retained", True)
    assert await late.nothing()
