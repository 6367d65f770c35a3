"""The line of a run with faults: what passes, when, and what breaks."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from mqlab.runner.agents.handle import BrokenRunError
from mqlab.runner.faults.line import ControlledLine, open_line
from mqlab.runner.faults.proxy import RETRANSMISSION_SECONDS, LineState

# So long that what may not pass would have passed. A slower machine only waits with the test.
_A_WHILE = 0.1
# No test may wait for longer.
_PATIENCE = 600.0
WHOLE = LineState()


class _EchoServer:
    """Answers every client with what it sends."""

    def __init__(self) -> None:
        self._serving: set[asyncio.Task[None] | None] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = f"tcp:127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def end(self) -> None:
        self._server.close()
        await asyncio.gather(*filter(None, self._serving))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving.add(asyncio.current_task())
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        await _close(writer)


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


class _Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, line: ControlledLine) -> "_Client":
        return cls(*await asyncio.open_connection("127.0.0.1", _port(line)))

    async def echo(self, data: bytes) -> bytes:
        self.writer.write(data)
        return await self.reader.readexactly(len(data))

    async def is_lost(self) -> bool:
        with suppress(OSError):
            return await self.reader.read(1) == b""
        return True


def _port(line: ControlledLine) -> int:
    return int(line.address.rpartition(":")[2])


@asynccontextmanager
async def _line() -> AsyncIterator[tuple[ControlledLine, Callable[[], Awaitable[_Client]]]]:
    """A line to an echo server, and a function that connects over it."""
    server, clients = _EchoServer(), []
    await server.start()

    async def connect() -> _Client:
        clients.append(await _Client.connect(line))
        return clients[-1]

    async with asyncio.timeout(_PATIENCE):
        async with open_line(server.address) as line:
            yield line, connect
        for client in clients:
            await _close(client.writer)
        await server.end()


def test_a_cut_line_holds_bytes_and_new_connections_and_loses_none() -> None:
    async def play() -> None:
        async with _line() as (line, connect):
            client = await connect()
            assert await client.echo(b"before") == b"before"
            await line.change(LineState(passes=False))
            other = await connect()
            waiting = [asyncio.ensure_future(client.echo(b"meanwhile")), asyncio.ensure_future(other.echo(b"new"))]
            done, _ = await asyncio.wait(waiting, timeout=_A_WHILE)
            assert not done
            await line.change(WHOLE)
            assert await asyncio.gather(*waiting) == [b"meanwhile", b"new"]

    asyncio.run(play())


def test_a_reset_ends_all_connections_and_new_ones_until_it_is_over() -> None:
    async def play() -> None:
        async with _line() as (line, connect):
            client = await connect()
            await client.echo(b"before")
            await line.change(LineState(accepts=False))
            assert await client.is_lost()
            assert await (await connect()).is_lost()
            await line.change(WHOLE)
            assert await (await connect()).echo(b"after") == b"after"

    asyncio.run(play())


def test_a_slow_line_delays_each_way_and_keeps_the_order() -> None:
    async def play() -> None:
        data = bytes(range(256)) * 1000
        async with _line() as (line, connect):
            client = await connect()
            await line.change(LineState(delay_s=0.05))
            begin = time.monotonic()
            assert await client.echo(data) == data
            assert time.monotonic() - begin >= 2 * 0.05

    asyncio.run(play())


def test_a_lost_segment_arrives_after_the_retransmission() -> None:
    """The line draws the same chances in every run: of four segments, the third is lost twice."""

    async def play() -> None:
        async with _line() as (line, connect):
            client = await connect()
            await line.change(LineState(loss=0.5))
            begin = time.monotonic()
            assert [await client.echo(data) for data in (b"first", b"second")] == [b"first", b"second"]
            assert time.monotonic() - begin >= RETRANSMISSION_SECONDS + 2 * RETRANSMISSION_SECONDS

    asyncio.run(play())


def test_the_end_of_one_side_ends_the_other() -> None:
    async def play() -> None:
        async with _line() as (_, connect):
            client = await connect()
            await client.echo(b"before")
            client.writer.write_eof()
            assert await client.is_lost()

    asyncio.run(play())


def test_a_line_ends_with_its_context() -> None:
    async def play() -> None:
        async with _line() as (line, connect):
            client = await connect()
            await client.echo(b"before")
        assert await client.is_lost()
        with pytest.raises(ConnectionRefusedError):
            await _Client.connect(line)
        with pytest.raises(BrokenRunError, match="the proxy between the agents and the system has ended"):
            await line.change(WHOLE)

    asyncio.run(play())


@pytest.mark.parametrize("address", ["unix:/tmp/socket", "tls:host:1", "nowhere"])
def test_a_line_needs_an_address_of_tcp(address: str) -> None:
    async def play() -> None:
        async with open_line(address):
            pass

    with pytest.raises(BrokenRunError, match="no faults of the line"):
        asyncio.run(play())
