"""Somebody sets the machine's clock while messages wait for a time of it."""

import asyncio
import logging
import time

import pytest

from mqlab.broker.server import broker as server
from mqlab.broker.server import wall_clock as clocks
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.startup import running
from mqlab.client import aio, headers
from mqlab.wire.address import Address

from .raw_client import client, in_loop, local

HOUR = 3600.0
# What must come, comes within this.
PATIENCE = 240.0


class WallClock:
    """That of broker and clients in this process; the monotonic clock goes on as it does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead = 0.0
        for module in (server, clocks):
            monkeypatch.setattr(module, "time_ns", self.time_ns)
        monkeypatch.setattr(headers, "_now_ms", lambda: self.time_ns() // 1_000_000)

    def time_ns(self) -> int:
        return time.time_ns() + int(self.ahead * 1e9)


@pytest.fixture
def wall_clock(monkeypatch: pytest.MonkeyPatch) -> WallClock:
    return WallClock(monkeypatch)


async def linked(address: Address) -> tuple[aio.Producer, aio.Consumer]:
    session = await (await client(address)).session()
    return await session.producer("queue:q"), await session.consumer("queue:q")


async def holds(broker: Broker, messages: int) -> None:
    """Wait until so many are on the queue."""
    deadline = time.monotonic() + PATIENCE
    while broker.core.destinations.queues["q"].messages != messages:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


@in_loop
async def test_a_clock_that_is_set_back_does_not_stall_a_delay(wall_clock: WallClock) -> None:
    async with running(local()) as (broker, (address,)):
        producer, consumer = await linked(address)
        await producer.send(b"1", delay=1500)
        await holds(broker, 1)
        wall_clock.ahead = -HOUR
        # The broker may learn of it from a message, which is of the new time.
        await producer.send(b"2", delay=200)
        assert [(await consumer.receive(PATIENCE)).body for _ in range(2)] == [b"2", b"1"]


@in_loop
async def test_a_broker_at_rest_notices_that_the_clock_was_set_back(wall_clock: WallClock) -> None:
    async with running(local()) as (broker, (address,)):
        producer, consumer = await linked(address)
        began = time.monotonic()
        await producer.send(b"1", delay=200)
        await holds(broker, 1)
        wall_clock.ahead = -HOUR
        assert (await consumer.receive(PATIENCE)).body == b"1"
        assert time.monotonic() - began >= 0.19


@in_loop
async def test_what_is_due_by_a_clock_that_is_set_forward_comes(wall_clock: WallClock) -> None:
    async with running(local()) as (broker, (address,)):
        producer, consumer = await linked(address)
        await producer.send(b"1", delay=3_600_000)
        await holds(broker, 1)
        wall_clock.ahead = HOUR
        assert (await consumer.receive(PATIENCE)).body == b"1"


@in_loop
async def test_what_has_expired_by_a_clock_that_is_set_forward_goes(wall_clock: WallClock) -> None:
    async with running(local()) as (broker, (address,)):
        producer, consumer = await linked(address)
        await consumer.close()
        await producer.send(b"1", time_to_live=3_600_000)
        await holds(broker, 1)
        wall_clock.ahead = HOUR
        await holds(broker, 0)
        assert broker.core.destinations.queues["q"].counters.expired == 1


@in_loop
async def test_a_clock_that_was_wrong_is_set_right(wall_clock: WallClock) -> None:
    wall_clock.ahead = -HOUR
    async with running(local()) as (broker, (address,)):
        producer, consumer = await linked(address)
        await producer.send(b"1", delay=1000)
        for count, ahead in enumerate((0.0, HOUR, 0.0), 1):
            await holds(broker, count)
            wall_clock.ahead = ahead
            await producer.send(b"2", delay=1000)
        # The last one's delay is all that is left to wait for.
        assert sorted([(await consumer.receive(PATIENCE)).body for _ in range(4)]) == [b"1", b"2", b"2", b"2"]


@in_loop
async def test_an_interruption_between_two_readings_is_no_step(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    late = 0
    readings = 0

    def monotonic_ns() -> int:
        nonlocal readings
        readings += 1
        return time.monotonic_ns() + (late if readings in (4, 6, 8, 10) else 0)

    monkeypatch.setattr(clocks, "monotonic_ns", monotonic_ns)
    async with running(local()) as (broker, _):
        broker.now = readings = 0
        late = 10**10
        broker.update_clock()
        assert readings == 10
        assert "the clock was set" not in caplog.text
