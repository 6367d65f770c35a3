"""The memory that a STOMP connection takes inside the broker, however long it lasts."""

import asyncio
import socket
from typing import cast

import pytest

from broker.server.raw_client import in_loop, local, unwritten_at_rest
from mqlab.broker import limits
from mqlab.broker.core.broker import Core
from mqlab.broker.server.adapter.transport import AdapterTransport
from mqlab.broker.server.inprocess.connection import InProcessConnection
from mqlab.broker.server.startup import running
from mqlab.wire.address import Address

from .stomp_clients import frame

# What a socket may have to write: the mark at which it says so, and the receipts of a turn.
UNWRITTEN_MOST = 4 * 1024 * 1024
# Of the client: without it the system takes as many receipts as it has memory for.
RECEIVE_BUFFER = 256 * 1024


class Peer:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._number = 0

    @classmethod
    async def connect(cls, address: Address) -> "Peer":
        peer = cls(*await asyncio.open_connection(address.host, address.port))
        await peer.write(frame("CONNECT", **{"accept-version": "1.2"}))
        return peer

    async def write(self, *frames: bytes) -> None:
        """Returns when all is done."""
        self._number += 1
        name = f"n{self._number}"
        self._writer.write(b"".join(frames) + frame("BEGIN", transaction=name, receipt=name))
        self._writer.write(frame("ABORT", transaction=name))
        await self._reader.readuntil(f"receipt-id:{name}\n\n\0".encode())

    async def rest(self) -> bytes:
        return await self._reader.read()

    def close(self) -> None:
        self._writer.close()


def producers(core: Core) -> int:
    return sum(len(session.producers) for session in core.sessions)


@pytest.mark.parametrize("turn_ns", [limits.TURN_NS, 10**15], ids=["in turns", "each read in one turn"])
@in_loop
async def test_receipts_that_the_client_does_not_read_are_not_made(
    turn_ns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is what it goes on to send read, whether commands of an earlier read wait or not."""
    monkeypatch.setattr(limits, "TURN_NS", turn_ns)
    receipts = [f"{number:04000d}" for number in range(5000)]
    async with running(local()) as (broker, (address,)):
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(frame("CONNECT", **{"accept-version": "1.2"}))
        await reader.readuntil(b"\0")
        (inner,) = (one for one in broker.connections if isinstance(one, InProcessConnection))
        assert isinstance(inner._frame_transport, AdapterTransport)
        assert inner._frame_transport._socket is not None
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        client = cast(asyncio.Transport, writer.transport)
        client.pause_reading()
        for receipt in receipts:
            writer.write(frame("BEGIN", transaction="t", receipt=receipt) + frame("ABORT", transaction="t"))
        assert await unwritten_at_rest(inner._frame_transport._socket) < UNWRITTEN_MOST
        assert not inner._frame_transport._socket.is_reading()
        client.resume_reading()
        for receipt in receipts:
            assert await reader.readuntil(b"\0") == b"RECEIPT\nreceipt-id:%b\n\n\0" % receipt.encode()
        writer.close()


@in_loop
async def test_destinations_that_are_no_longer_used_are_let_go() -> None:
    async with running(local()) as (broker, (address,)):
        peer = await Peer.connect(address)
        for count in (limits.ADAPTER_PRODUCERS - 1, limits.ADAPTER_PRODUCERS, limits.ADAPTER_PRODUCERS + 1):
            await peer.write(*(frame("SEND", b"x", destination=f"/queue/{number}") for number in range(count)))
            assert producers(broker.core) == min(count, limits.ADAPTER_PRODUCERS)
        assert all(broker.core.destinations.queues[str(n)].messages == 3 for n in range(limits.ADAPTER_PRODUCERS - 1))
        peer.close()


@in_loop
async def test_transactions_use_few_sessions_again_and_again() -> None:
    async with running(local()) as (broker, (address,)):
        peer = await Peer.connect(address)
        for number in range(50):
            await peer.write(
                frame("BEGIN", transaction="t"),
                frame("SEND", b"x", destination=f"/queue/{number}", transaction="t"),
                frame("COMMIT", transaction="t"),
            )
        assert len(broker.core.sessions) <= 3
        names = [str(number) for number in range(20)]
        await peer.write(*(frame("BEGIN", transaction=name) for name in names))
        assert len(broker.core.sessions) >= 21
        await peer.write(*(frame("COMMIT", transaction=name) for name in names))
        await peer.write()
        assert len(broker.core.sessions) <= 6
        peer.close()


@pytest.mark.parametrize("said", [b"", b"\n", b"CON", b"CONNECT\naccept-version:1.2\n"])
@in_loop
async def test_a_stranger_has_little_time(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HELLO_SECONDS", 0.1)
    async with running(local()) as (broker, (address,)):
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(said)
        assert b"not logged in within 0.1 seconds" in await reader.read()
        writer.close()
        while broker.connections:
            await asyncio.sleep(0.01)


@in_loop
async def test_one_connection_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CONNECTIONS", 2)
    async with running(local()) as (_, (address,)):
        peers = [await Peer.connect(address) for _ in range(2)]
        reader, writer = await asyncio.open_connection(address.host, address.port)
        assert b"at most 2 connections" in await reader.read()
        writer.close()
        # Those who are in go on, and one who leaves makes room.
        for peer in peers:
            await peer.write()
        peers[0].close()
        while True:
            reader, writer = await asyncio.open_connection(address.host, address.port)
            writer.write(frame("CONNECT", **{"accept-version": "1.2"}))
            answer = await reader.read(9)
            writer.close()
            if answer == b"CONNECTED":
                break
        peers[1].close()


@in_loop
async def test_a_stopping_broker_ends_its_connections() -> None:
    async with running(local()) as (broker, (address,)):
        peer = await Peer.connect(address)
        silent = await asyncio.open_connection(address.host, address.port)
        while len(broker.connections) < 2:
            await asyncio.sleep(0.01)
    assert await peer.rest() == b""
    assert await silent[0].read() == b""
    peer.close()
    silent[1].close()
