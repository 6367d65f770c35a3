"""Long frames that do not arrive whole: what all connections hold of them is bounded, and others are served."""

import asyncio

import pytest

from broker.server.mqtt.mqtt_client import connect as mqtt_connect
from broker.server.raw_client import Raw, in_loop, local
from broker.server.stomp.stomp_clients import frame as stomp_frame
from mqlab.broker import limits
from mqlab.broker.server.native.unfinished_frames import UnfinishedFrames
from mqlab.broker.server.startup import running
from mqlab.wire.amqp10.frames import AMQP_HEADER
from mqlab.wire.amqp10.frames import frame as amqp_frame
from mqlab.wire.amqp10.performatives import Attach, Begin, Flow, Open, Target, Transfer, composite, encode_performative
from mqlab.wire.mqtt.packets import varint
from mqlab.wire.native import frames as native
from mqlab.wire.native.frames import Flag, Kind

MIB = 1024 * 1024
MEMORY = 64 * MIB
# Of a frame that does not arrive whole.
LENGTH = 8_000_000


def native_begin(_: int) -> bytes:
    hello = native.frame(Kind.HELLO, {"version": native.VERSION})
    return hello + native.header(Kind.SEND, flags=Flag.SINGLE, link=1, first=1, amount=1, length=LENGTH) + bytes(MIB)


def stomp_begin(_: int) -> bytes:
    begin = b"SEND\ndestination:/queue/a\ncontent-length:%d\n\n" % LENGTH
    return stomp_frame("CONNECT", **{"accept-version": "1.2"}) + begin + bytes(MIB)


def mqtt_begin(number: int) -> bytes:
    return mqtt_connect(f"hostile-{number}") + b"\x30" + varint(LENGTH) + bytes(MIB)


def amqp_begin(_: int) -> bytes:
    """A delivery in many frames, of which more are to come."""
    first = (Open("hostile"), Begin(None, 0, 100, 100), Attach("a", 0, False, target=composite(Target("a"))))
    return AMQP_HEADER + b"".join(amqp_frame(0, encode_performative(one)) for one in first)


def amqp_parts() -> bytes:
    part = encode_performative(Transfer(0, 0, b"t", 0, more=True)) + bytes(MIB // 16)
    return amqp_frame(0, part) * 16


BEGINS = {"native": native_begin, "stomp": stomp_begin, "mqtt": mqtt_begin, "amqp": amqp_begin}


@pytest.mark.parametrize("protocol", BEGINS)
@in_loop
async def test_long_frames_that_stop_to_grow_are_bounded(protocol: str) -> None:
    async with running(local(memory_limit=MEMORY)) as (broker, (address,)):
        hostile = []
        for number in range(30):
            raw = await Raw.connect(address, greet=False)
            raw.write(BEGINS[protocol](number))
            if protocol == "amqp":
                # The credit of the link is on its way: all that was said is handled before what comes now.
                await raw._reader.readuntil(encode_performative(Flow(0, 0, 0, 0))[:3])
                raw.write(amqp_parts())
            await raw.writer.drain()
            hostile.append(raw)
        most = MEMORY // limits.UNFINISHED_SHARE
        while len(broker.connections) > most // MIB:
            assert broker.unfinished.bytes <= most
            await asyncio.sleep(0.001)
        # Others send long frames as before.
        raw = await Raw.connect(address)
        await raw.open_session()
        await raw.open_producer("queue:b")
        raw.send(bytes(3 * MIB), flags=Flag.CONFIRM)
        await raw.read_until(Kind.CONFIRM)
        assert broker.unfinished.bytes <= most
        for one in (*hostile, raw):
            one.writer.transport.abort()
        while broker.connections:
            await asyncio.sleep(0.001)
        assert broker.unfinished.bytes == 0


class Ended:
    failed = ""

    def fail(self, code: str, message: str) -> None:  # noqa: ARG002 - the reason is not looked at
        self.failed = code


def test_the_frame_that_has_grown_last_stays() -> None:
    frames, first, second, third = UnfinishedFrames(8 * MIB * limits.UNFINISHED_SHARE), Ended(), Ended(), Ended()
    for one in (first, second, first):
        frames.note(one, 3 * MIB)
    frames.note(third, 3 * MIB)
    assert [one.failed for one in (first, second, third)] == ["", "limit", ""]
    # One alone may have any length.
    frames.forget(first)
    assert frames.note(third, 100 * MIB)
    assert not third.failed
    assert not frames.note(third, 100)
    assert frames.bytes == 0
