"""A connection that has used up its read budget yields to the others."""

import asyncio
import socket

from mqlab.broker.server.startup import running
from mqlab.wire.native import frames as native
from mqlab.wire.native.frames import Flag, Kind

from .raw_client import Raw, in_loop, local

BODY = b"x" * 12
# About a read of the broker.
READ = 64 * 1024


def _frames(first: int, count: int) -> bytes:
    about = {"session": 1, "link": 1, "amount": 1, "length": len(BODY)}
    numbers = range(first, first + count)
    return b"".join(native.header(Kind.SEND, flags=Flag.SINGLE, first=number, **about) + BODY for number in numbers)


def _fill_socket(raw: Raw) -> int:
    """Send until the socket is full, while the broker cannot run. Return the bytes sent."""
    sent, plain = 0, socket.socket(fileno=raw.writer.get_extra_info("socket").fileno())
    try:
        data = _frames(1, 200_000)
        while sent < len(data):
            sent += plain.send(data[sent : sent + READ])
    except BlockingIOError:
        pass
    finally:
        plain.detach()
    return sent


@in_loop
async def test_the_broker_answers_others_before_it_has_read_all_of_one_connection() -> None:
    async with running(local()) as (broker, (address,)):
        raw, other = await Raw.connect(address), await Raw.connect(address)
        await raw.open_session()
        await raw.open_producer("queue:q")
        sent = _fill_socket(raw)
        other.write(native.frame(Kind.ASK, {"ask": "status"}, first=1))
        await other.read_until(Kind.ANSWER)
        queue, size = broker.core.destinations.queues["q"], native.HEADER_SIZE + len(BODY)
        assert sent > 5 * READ
        assert queue.counters.put * size < 4 * READ
        # The broker reads the rest without another event.
        while queue.counters.put < sent // size:
            await asyncio.sleep(0)
