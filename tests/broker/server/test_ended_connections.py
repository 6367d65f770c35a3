"""An ended connection leaves nothing behind in the broker's memory, whatever protocol it spoke."""

import asyncio
import gc
from pathlib import Path

import pytest

from mqlab.broker.server.broker import Broker
from mqlab.broker.server.native.connection import NativeServerConnection
from mqlab.broker.server.protocol_detection import ProtocolDetection
from mqlab.broker.server.startup import running
from mqlab.broker.server.stomp.connection import StompServerConnection
from mqlab.broker.server.websocket.connection import WebSocketConnection
from mqlab.wire.address import Address
from mqlab.wire.native import frames as native
from mqlab.wire.native.frames import HEADER_SIZE, FrameDecoder, Kind

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
    while broker.connections:
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


def open_sockets() -> int:
    """The transports that uvloop has not freed."""
    return sum(type(one).__name__ == "TCPTransport" for one in gc.get_objects())
