"""Consumers that take nothing while others run at full rate: memory stays bounded, and the others notice nothing.

MQLAB_TORTURE=1 does it for ten minutes.
"""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import uvloop

from mqlab.client import aio
from mqlab.wire.native.bodies import encode

from .broker_process import BrokerProcess
from .memory_watch import MemoryWatch

MIB = 1024 * 1024
SECONDS = 600 if os.environ.get("MQLAB_TORTURE") == "1" else 3
LIMIT = 32 * MIB
ROWS = 256
CONFIG = f"""
memory_limit: {LIMIT}
queue_limit: 4MiB
policies:
  - {{match: "topic:#", when_full: drop-oldest}}
"""


class Flow:
    """One producer and one consumer of a destination, and how far they are."""

    def __init__(self, producer: aio.Producer, consumer: aio.Consumer) -> None:
        self._producer = producer
        self._consumer = consumer
        self.sent = self.received = 0
        self.last = -1

    async def send(self, until: float) -> None:
        while time.monotonic() < until:
            bodies = [b"%-1024d" % n for n in range(self.sent, self.sent + ROWS)]
            await self._producer.send_batch(encode(bodies))
            self.sent += ROWS
            # As fast as its consumer: a topic that drops its oldest messages would not wait for it.
            while self.sent - self.received > 8 * ROWS and time.monotonic() < until:
                await asyncio.sleep(0)

    async def receive(self) -> None:
        """Until cancelled: each message once, in order."""
        while True:
            numbers = [*map(int, (await self._consumer.receive_batch()).bodies().tolist())]
            assert numbers == sorted(numbers)
            assert numbers[0] > self.last
            self.last = numbers[-1]
            self.received += len(numbers)


async def stall(address: str) -> list[aio.Connection]:
    """One with room for some messages that it never takes; one that has room for all and does not read its socket."""
    stalled = []
    for destination in ("queue:q", "topic:t"):
        idle = await aio.connect(address)
        await (await idle.session()).consumer(destination, prefetch=100)
        deaf = await aio.connect(address)
        await (await deaf.session()).consumer(destination, prefetch=1_000_000)
        assert deaf._connection._transport is not None
        deaf._connection._transport.pause_reading()
        stalled += [idle, deaf]
    return stalled


async def flow(address: str, destination: str) -> Flow:
    session = await (await aio.connect(address)).session()
    return Flow(await session.producer(destination), await session.consumer(destination))


def test_stalled_consumers_cost_nobody_else_anything(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)

    async def run() -> None:
        async with BrokerProcess(tmp_path, "--config", str(tmp_path / "config.yaml")) as broker:
            watching = await aio.connect(broker.address)
            stalled = await stall(broker.address)
            flows = [await flow(broker.address, name) for name in ("queue:q", "topic:t")]
            with MemoryWatch(broker) as weighed:
                receivers = [asyncio.ensure_future(one.receive()) for one in flows]
                until = time.monotonic() + SECONDS
                await asyncio.gather(*(one.send(until) for one in flows))
                held = await settled(watching, flows, receivers)
                for receiver in receivers:
                    receiver.cancel()
                await asyncio.wait(receivers)
            assert all(receiver.cancelled() for receiver in receivers)
            of_queue, of_topic = flows
            # The stalled ones hold a part of the queue, bounded by what they have room for and what a socket takes.
            assert 100 <= held < 10_000
            assert of_queue.received == of_queue.sent - held
            assert of_topic.received == of_topic.sent
            assert min(of_queue.sent, of_topic.sent) > 5 * held
            record_property("stalled_seconds", SECONDS)
            record_property("messages", of_queue.sent + of_topic.sent)
            record_property("peak_percent", round(100 * weighed.peak / LIMIT))
            assert weighed.peak <= LIMIT * 1.2, f"{weighed.peak / MIB:.1f} MiB"
            for connection in stalled:
                await connection.drop()
            print(f"peak {weighed.peak / MIB:.1f} MiB, {of_queue.sent} and {of_topic.sent} messages")

    uvloop.run(asyncio.wait_for(run(), SECONDS + 100))


async def settled(connection: aio.Connection, flows: list[Flow], receivers: list[asyncio.Task[None]]) -> int:
    """Wait until everybody has what is for them. Returns what the stalled consumers of the queue hold."""
    of_queue, of_topic = flows
    while True:
        about = await connection.ask("show", name="queue:q")
        held = about["counters"]["delivered"] - about["counters"]["acknowledged"]
        if of_queue.received == of_queue.sent - held and of_topic.received == of_topic.sent:
            return int(held)
        done, _ = await asyncio.wait(receivers, timeout=0.01)
        for receiver in done:
            receiver.result()
