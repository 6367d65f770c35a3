"""Knobs of the studies about how applications are bound to the broker, and how closely it watches its queues."""

import asyncio
import time
from pathlib import Path

import pytest

from broker.server.raw_client import client, in_loop
from mqlab.broker import limits
from mqlab.broker.channel_settings import ChannelSettings
from mqlab.broker.server.inprocess.local_broker import LocalBroker
from mqlab.broker.settings import Settings
from mqlab.client import aio
from mqlab.client.errors import ClosedError, LoginError, RefusedError
from mqlab.wire.address import Address

from .message_helpers import receive

BOUND = Address.parse("bindings:bound")


@in_loop
async def test_fastpath_binding_channel_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The application runs in the broker's process, with no socket between; the limit of connections is the same."""
    monkeypatch.setattr(limits, "CONNECTIONS", 2)
    async with LocalBroker(Settings.flat(name="bound", listen=(), data=tmp_path)) as broker:
        assert broker.addresses == []
        first, second = await client(BOUND), await client(BOUND)
        producer = await (await first.session()).producer("queue:q")
        await producer.send(b"1", persistent=True)
        await producer.send(b"2")
        assert await receive(await (await second.session()).consumer("queue:q"), 2) == [b"1", b"2"]
        with pytest.raises((ClosedError, LoginError), match="at most 2 connections"):
            await aio.connect(str(BOUND))


@in_loop
async def test_queue_monitoring_monq_channel_monitoring_monchl() -> None:
    """How long messages are on a queue, how fast they come and go: off, or for a share of them up to all."""
    for level, looks in (("off", None), ("low", 0), ("medium", 2), ("high", 16)):
        async with LocalBroker(Settings.flat(name="bound", listen=(), monitoring=level)):
            connection = await client(BOUND)
            session = await connection.session()
            producer = await session.producer("queue:q")
            for n in range(16):
                await producer.send(b"x", correlation_id=str(n))
            # By the clock: the loop counts a sleep from the beginning of its turn, in which they were sent.
            sent = time.monotonic()
            while time.monotonic() < sent + 0.002:
                await asyncio.sleep(0.001)
            await receive(await session.consumer("queue:q", prefetch=1), 16)
            (listed,) = (await connection.ask("list"))["destinations"]
            seen = (await connection.ask("show", name="queue:q"))["monitoring"]
            assert (await connection.status())["monitoring"] == level
            if looks is None:
                assert seen is listed["monitoring"] is None
                continue
            assert seen["looks"] == listed["monitoring"]["looks"] == looks
            assert (seen["on_queue_short_us"] or 0) >= (2000 if looks else 0)
            assert seen["last_get_ms"] >= seen["last_put_ms"] > 0
    await _channel_monitoring()


@in_loop
async def test_the_level_of_monitoring_changes_while_the_broker_runs() -> None:
    """A message that came before has no time on the queue; queues that are there, and new ones, have the new level."""
    async with LocalBroker(Settings.flat(name="bound", listen=(), monitoring="off")):
        connection = await client(BOUND)
        session = await connection.session()
        producer = await session.producer("queue:q")
        await producer.send(b"before")
        assert await connection.ask("monitoring", level="high") == {"level": "high"}
        for _ in range(3):
            await producer.send(b"after")
        await (await session.producer("queue:new")).send(b"x")
        await receive(await session.consumer("queue:q", prefetch=1), 4)
        seen = (await connection.ask("show", name="queue:q"))["monitoring"]
        assert seen["looks"] == 3
        assert seen["on_queue_long_us"] < 60_000_000
        assert (await connection.ask("show", name="queue:new"))["monitoring"] is not None
        assert (await connection.status())["monitoring"] == "high"
        with pytest.raises(RefusedError, match="'much' is none of off, low"):
            await connection.ask("monitoring", level="much")
        assert await connection.ask("monitoring", level="default") == {"level": "off"}
        assert (await connection.ask("show", name="queue:q"))["monitoring"] is None


async def _channel_monitoring() -> None:
    """Messages in a batch and the round trip of one: the same levels."""
    for level, looks in (("off", None), ("low", 0), ("medium", 1), ("high", 8)):
        to_far = ChannelSettings("far", "bindings:far")
        near = Settings.flat(name="bound", listen=(), monitoring=level, channels=(to_far,))
        async with LocalBroker(Settings.flat(name="far", listen=())), LocalBroker(near):
            here, there = await client(BOUND), await client(Address.parse("bindings:far"))
            producer = await (await here.session()).producer("queue:q@far")
            consumer = await (await there.session()).consumer("queue:q")
            for _ in range(9):
                # One by one, so each is a batch; when the next has arrived, the one before is counted.
                await producer.send(b"x")
                await receive(consumer, 1)
            (shown,) = (await here.ask("channels"))["channels"]
            seen = shown["monitoring"]
            if looks is None:
                assert seen is None
                continue
            assert seen["looks"] - looks in (0, 1)
            assert seen["batch_short"] == (1 if looks else None)
            assert ((seen["round_trip_short_us"] or 0) > 0) == (looks > 0)
