"""Long frames that do not arrive whole: what all connections hold of them is bounded, and others are served."""

import asyncio

import pytest

from broker.server.raw_client import Raw, in_loop, local
from broker.server.stomp.stomp_clients import frame as stomp_frame
from mqlab.broker import limits
from mqlab.broker.server.native.unfinished_frames import UnfinishedFrames
from mqlab.broker.server.startup import running
from mqlab.wire.native import frames as native
from mqlab.wire.native.frames import Flag, Kind

MIB = 1024 * 1024
MEMORY = 64 * MIB


@pytest.mark.parametrize("stomp", [False, True])
@in_loop
async def test_long_frames_that_stop_to_grow_are_bounded(stomp: bool) -> None:
    async with running(local(memory_limit=MEMORY)) as (broker, (address,)):
        hostile = []
        for _ in range(30):
            raw = await Raw.connect(address, greet=not stomp)
            if stomp:
                raw.write(stomp_frame("CONNECT", **{"accept-version": "1.2"}))
                raw.write(b"SEND\ndestination:/queue/a\ncontent-length:8000000\n\n")
            else:
                raw.write(native.header(Kind.SEND, flags=Flag.SINGLE, link=1, first=1, amount=1, length=8_000_000))
            raw.write(bytes(MIB))
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
