"""Consumers that take nothing while others run at full rate: memory stays bounded, and the others notice nothing.

MQLAB_TORTURE=1 does it for ten minutes.
"""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import uvloop

from broker.server.mqtt.mqtt_client import connect
from mqlab.client import aio
from mqlab.wire.amqp10.frames import AMQP_HEADER, EMPTY_FRAME, frame
from mqlab.wire.amqp10.performatives import (
    Attach,
    Begin,
    Open,
    Source,
    Target,
    composite,
    encode_performative,
)
from mqlab.wire.amqp10.performatives import (
    Flow as FlowFrame,
)
from mqlab.wire.mqtt.packets import packet, text
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


def amqp_receivers(credit: int) -> bytes:
    said: list[Open | Begin | Attach | FlowFrame] = [Open("stalled"), Begin(None, 0, 1000, 1000)]
    for handle, name in enumerate(("queue:q", "topic:t")):
        said.append(Attach(name, handle, True, source=composite(Source(name)), target=composite(Target())))
        said.append(FlowFrame(0, 2**31 - 1, 0, 1, handle, 0, credit))
    return AMQP_HEADER + b"".join(frame(0, encode_performative(one)) for one in said)


async def stall_others(address: str) -> list[asyncio.Task[None]]:
    """The same over AMQP 1.0, and over MQTT for the topic: what MQTT gets with QoS 0 from a queue is gone."""
    mqtt = connect("deaf") + packet(0x82, b"\0\1\0" + text("t") + b"\0")
    tasks = []
    for said, answer in ((amqp_receivers(100), b"topic:t"), (amqp_receivers(1_000_000), b"topic:t"), (mqtt, b"\x90")):
        # The stream reads 64 KiB at most that nobody wants.
        reader, writer = await asyncio.open_unix_connection(address.removeprefix("unix:"), limit=32 * 1024)
        writer.write(said)
        await reader.readuntil(answer)
        tasks.append(asyncio.ensure_future(stay(writer, b"" if said is mqtt else EMPTY_FRAME)))
    return tasks


async def stay(writer: asyncio.StreamWriter, sign_of_life: bytes) -> None:
    """Until cancelled."""
    try:
        while True:
            writer.write(sign_of_life)
            await asyncio.sleep(10)
    finally:
        writer.transport.abort()


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
            stalled, others = await stall(broker.address), await stall_others(broker.address)
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
            for task in others:
                task.cancel()
            await asyncio.wait(others)
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
