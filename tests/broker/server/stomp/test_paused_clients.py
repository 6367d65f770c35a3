"""The broker does not read from a client that must wait, and yet notices whether it is alive or gone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from broker.server.raw_client import client, in_loop, local
from mqlab.broker.server.adapter import heartbeats
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.startup import running
from mqlab.wire.address import Address

from .stomp_clients import frame

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def waiting(**heart_beat: str) -> AsyncIterator[tuple[Broker, Address, Streams]]:
    """A client that has sent more than its queue takes."""
    async with running(local(queue_limit=10_000, producer_window=10_000)) as (broker, (address,)):
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(frame("CONNECT", **{"accept-version": "1.2", **heart_beat}))
        writer.write(frame("SUBSCRIBE", id="1", destination="/queue/mine", receipt="r"))
        await reader.readuntil(b"receipt-id:r")
        writer.write(b"".join(frame("SEND", b"%04d" % n + bytes(1000), destination="/queue/full") for n in range(100)))
        while not broker.core.flow.held:
            await asyncio.sleep(0.01)
        yield broker, address, (reader, writer)
        writer.close()


@in_loop
async def test_it_goes_on_when_there_is_room_and_in_order() -> None:
    async with waiting() as (_, address, _):
        session = await (await client(address)).session()
        consumer = await session.consumer("queue:full")
        assert [(await consumer.receive()).body[:4] for _ in range(100)] == [b"%04d" % n for n in range(100)]


@in_loop
async def test_its_death_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it had not acknowledged would otherwise be nobody's until there is room."""
    monkeypatch.setattr(heartbeats, "_PAUSED_INTERVAL_S", 0.05)
    async with waiting() as (broker, _, (_, writer)):
        assert len(broker.connections) == 1
        writer.transport.abort()
        while broker.connections:
            await asyncio.sleep(0.01)


@in_loop
async def test_its_heart_beats_are_not_missed() -> None:
    async with waiting(**{"heart-beat": "200,100"}) as (broker, address, (reader, writer)):
        # It is alive, and says so; nobody listens for longer than it may be silent.
        beating = asyncio.ensure_future(beat(writer))
        for _ in range(12):
            assert await reader.readuntil(b"\n")
        assert len(broker.connections) == 1
        session = await (await client(address)).session()
        consumer = await session.consumer("queue:full")
        assert len([await consumer.receive() for _ in range(100)]) == 100
        beating.cancel()


async def beat(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"\n")
        await asyncio.sleep(0.02)
