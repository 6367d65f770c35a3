"""An ended connection leaves nothing behind in the broker's memory, whatever protocol it spoke."""

import asyncio
import contextlib
import gc
from pathlib import Path

import pytest

from mqlab.broker.server.broker import Broker
from mqlab.broker.server.connections import closing_sockets
from mqlab.broker.server.native.connection import NativeServerConnection
from mqlab.broker.server.protocol_detection import ProtocolDetection
from mqlab.broker.server.startup import running
from mqlab.broker.server.stomp.connection import StompServerConnection
from mqlab.broker.server.websocket.connection import WebSocketConnection
from mqlab.wire.address import Address
from mqlab.wire.native import frames as native
from mqlab.wire.native.frames import HEADER_SIZE, FrameDecoder, Kind

from .native_connections import native_connections
from .raw_client import Raw, in_loop, local, traced

HELLO = native.frame(Kind.HELLO, {"version": native.VERSION})
CONNECT = b"CONNECT\naccept-version:1.2\nhost:here\nheart-beat:5000,5000\n\n\0"
UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
ANYTHING_WRONG = b"\0" * 64


async def come_and_go(address: Address, first_bytes: bytes) -> None:
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(first_bytes)
    if first_bytes:
        await reader.read(1)
    writer.close()
    await writer.wait_closed()


def left_behind() -> list[object]:
    gc.collect()
    return [
        one
        for one in gc.get_objects()
        if isinstance(one, ProtocolDetection | NativeServerConnection | StompServerConnection | WebSocketConnection)
    ]


async def until_nobody_is_there(broker: Broker) -> None:
    while broker.connections or len(broker.closing_sockets):
        await asyncio.sleep(0.01)
    # The transports report the end of the last ones in the turns after that.
    for _ in range(10):
        await asyncio.sleep(0)


@in_loop
async def test_nor_is_one_that_had_sessions_links_and_temporary_queues(tmp_path: Path) -> None:
    async with running(local(data=tmp_path)) as (broker, (address,)):
        for number in range(3):
            raw = await Raw.connect(address)
            await raw.open_session()
            await raw.open_producer("queue:q")
            await raw.open_consumer("topic:t")
            raw.write(native.frame(Kind.ASK, {"ask": "temporary"}, first=1))
            raw.write(native.frame(Kind.ASK, {"ask": "show", "name": "queue:q"}, first=2))
            raw.send(b"%d" % number)
            await raw.read_until(Kind.ANSWER)
            raw.writer.transport.abort()
        await until_nobody_is_there(broker)
        assert left_behind() == []
        assert [*broker.core.destinations.queues] == ["q"]


@pytest.mark.parametrize("first_bytes", [b"", HELLO, CONNECT, UPGRADE, ANYTHING_WRONG], ids=range(5))
@in_loop
async def test_an_ended_connection_is_not_kept_in_memory(first_bytes: bytes, tmp_path: Path) -> None:
    async with running(local(data=tmp_path)) as (broker, (address,)):
        for _ in range(5):
            await come_and_go(address, first_bytes)
        await until_nobody_is_there(broker)
        assert left_behind() == []


@in_loop
async def test_ended_connections_leave_the_garbage_collector_little_work(tmp_path: Path) -> None:
    """The collector stops the broker: with all traces on, an ended connection had 220 objects for it."""
    connections, objects_each = 100, 30
    async with running(local(**traced(tmp_path))) as (broker, (address,)):
        gc.collect()
        gc.disable()
        try:
            for _ in range(connections):
                await come_and_go(address, HELLO)
            await until_nobody_is_there(broker)
            collected = gc.collect()
            while any(isinstance(one, NativeServerConnection) for one in gc.get_objects()):
                # The API trace still has lines about it to write.
                await asyncio.sleep(0.01)
                collected += gc.collect()
            assert collected < connections * objects_each
        finally:
            gc.enable()


@pytest.mark.parametrize("first_bytes", [HELLO, CONNECT, UPGRADE, ANYTHING_WRONG], ids=range(4))
@in_loop
async def test_its_socket_and_its_buffers_do_not_wait_for_the_garbage_collector(first_bytes: bytes) -> None:
    """Thousands of connections can end between two collections; each had 64 KiB, and with TLS far more."""
    async with running(local()) as (broker, (address,)):
        gc.collect()
        gc.disable()
        try:
            before = open_sockets()
            for _ in range(5):
                await come_and_go(address, first_bytes)
            await until_nobody_is_there(broker)
            while open_sockets() > before:
                await asyncio.sleep(0.01)
            decoders = [one for one in gc.get_objects() if isinstance(one, FrameDecoder)]
            assert all(len(decoder.get_buffer()) <= HEADER_SIZE for decoder in decoders)
        finally:
            gc.enable()


async def refused_client(address: Address, broker: Broker, first_bytes: bytes) -> asyncio.StreamWriter:
    """A client that the broker has refused, and that does not end the connection."""
    reader, writer = await asyncio.open_connection(address.host, address.port, limit=1)
    writer.write(first_bytes)
    await reader.read(1)
    while broker.connections:
        await asyncio.sleep(0.01)
    return writer


async def until_aborted(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while not writer.is_closing():
            writer.write(b"x")
            await asyncio.sleep(0.01)
    writer.transport.abort()


# A protocol that the broker closes by halves, so that the client can read the error.
REFUSED = [b"CONNECT\naccept-version:9\n\n\0", b"AMQP\3\1\0\0" + b"\xff" * 8, b"AMQP\0\0\x09\x01"]


@pytest.mark.parametrize("first_bytes", REFUSED, ids=range(3))
@in_loop
async def test_a_refused_client_that_stays_does_not_outlive_the_broker(first_bytes: bytes) -> None:
    """An event loop that ends with an open transport waits for it for ever."""
    async with running(local()) as (broker, (address,)):
        writer = await refused_client(address, broker, first_bytes)
        assert len(broker.closing_sockets) == 1
    assert not len(broker.closing_sockets)
    await until_aborted(writer)


@pytest.mark.parametrize("first_bytes", REFUSED, ids=range(3))
@in_loop
async def test_a_refused_client_that_stays_is_aborted(first_bytes: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(closing_sockets, "CLOSE_SECONDS", 0.1)
        async with running(local()) as (broker, (address,)):
            writer = await refused_client(address, broker, first_bytes)
            await until_aborted(writer)
            assert not len(broker.closing_sockets)


@in_loop
async def test_a_native_client_that_reads_nothing_is_aborted() -> None:
    """Its socket has unsent bytes, which would keep it open after the broker has closed it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(closing_sockets, "CLOSE_SECONDS", 0.1)
        async with running(local()) as (broker, (address,)):
            reader, writer = await asyncio.open_connection(address.host, address.port, limit=1)
            writer.write(HELLO)
            await reader.read(1)
            (connection,) = native_connections(broker)
            assert connection._transport is not None
            connection._transport.write(bytes(64 * 1024 * 1024))
            connection.fail("protocol", "refused")
            assert len(broker.closing_sockets) == 1
            while len(broker.closing_sockets):
                await asyncio.sleep(0.01)
            await until_aborted(writer)


def open_sockets() -> int:
    """The transports that uvloop has not freed."""
    return sum(type(one).__name__ == "TCPTransport" for one in gc.get_objects())
