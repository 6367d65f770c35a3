"""Keepalive: a client disconnects from a broker that stops answering."""

import asyncio
from typing import cast

import pytest

from broker.server.raw_client import in_loop, local
from mqlab.broker.server import startup
from mqlab.client import aio
from mqlab.client.errors import ClosedError
from mqlab.wire.native import frames as native
from mqlab.wire.native.frames import Kind

_SHORT = 0.2


class _HangingBroker(asyncio.Protocol):
    """Answers the first bytes with `answer`, and then nothing more."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, _: bytes) -> None:
        answer, self._answer = self._answer, b""
        self._transport.write(answer)


async def hanging(answer: bytes) -> tuple[asyncio.AbstractServer, str]:
    server = await asyncio.get_running_loop().create_server(lambda: _HangingBroker(answer), "127.0.0.1", 0)
    return server, f"tcp:127.0.0.1:{server.sockets[0].getsockname()[1]}"


@in_loop
async def test_a_broker_that_does_not_answer_the_handshake() -> None:
    server, address = await hanging(b"")
    with pytest.raises(ClosedError, match=r"did not answer within 0\.2 s"):
        await aio.connect(address, keepalive=_SHORT)
    server.close()


@in_loop
async def test_a_broker_that_stops_answering_while_a_call_waits() -> None:
    greeting = native.frame(Kind.HELLO, {"version": native.VERSION})
    server, address = await hanging(greeting)
    connection = await aio.connect(address, keepalive=_SHORT)
    with pytest.raises(ClosedError, match=r"did not answer within 0\.2 s"):
        await connection.session()
    server.close()


@in_loop
async def test_an_idle_broker_that_answers_pings_stays_connected() -> None:
    async with startup.running(local()) as (broker, (address,)):
        connection = await aio.connect(str(address), keepalive=_SHORT)
        session = await connection.session()
        consumer = await session.consumer("queue:q")
        waiting = asyncio.ensure_future(consumer.receive())
        await asyncio.sleep(6 * _SHORT)
        await (await session.producer("queue:q")).send(b"still there")
        assert (await asyncio.wait_for(waiting, 240)).body == b"still there"
        assert len(broker.connections) == 1
        await connection.close()


@in_loop
async def test_the_former_name_of_the_option_still_works() -> None:
    server, address = await hanging(b"")
    with pytest.warns(DeprecationWarning, match="keepalive"), pytest.raises(ClosedError, match="did not answer"):
        await aio.connect(address, silence=_SHORT)
    server.close()
