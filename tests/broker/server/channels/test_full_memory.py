"""Two brokers whose memory is full of messages for each other: neither waits for the other for ever."""

import asyncio
from pathlib import Path

import pytest

from broker.server.raw_client import in_loop
from mqlab.broker.channel_settings import ChannelSettings
from mqlab.client import aio
from mqlab.wire.native.bodies import encode

from .pair import Pair, until

MEMORY = 200_000
BODY = 2000
# Three times as much as there is room for.
MESSAGES = 300


def both_ways(folder: Path, batch: int = 1000, **settings: object) -> Pair:
    """Channels from A to B and back, little memory and small windows; everything else as it is by default."""
    back = ChannelSettings("A", f"unix:{folder / 'A'}", retry=1, batch=batch)
    little = {"memory_limit": MEMORY, "producer_window": 10_000, **settings}
    return Pair(folder, little, {**little, "channels": (back,)}, batch=batch)


def body(number: int) -> bytes:
    return b"%08d" % number + b"x" * (BODY - 8)


WAYS = (("A", "B"), ("B", "A"))


async def fill(pair: Pair, name: str, to: str, *, persistent: bool) -> None:
    producer = await (await pair.session(name)).producer(f"queue:q@{to}")
    for number in range(MESSAGES):
        await producer.send_batch(encode([body(number)]), persistent=persistent)
    await producer.close()


async def drain(pair: Pair, name: str) -> list[bytes]:
    consumer = await (await pair.session(name)).consumer("queue:q", prefetch=10)
    return [(await consumer.receive(60)).body for _ in range(MESSAGES)]


async def filled(pair: Pair, *, persistent: bool) -> list["asyncio.Task[None]"]:
    """Both have as much as they take for the other, the rest waits in producers; then the channels start."""
    channels = [pair.brokers[name].channels.get(to) for name, to in WAYS]
    for channel in channels:
        await channel.stop()
    tasks = [asyncio.ensure_future(fill(pair, name, to, persistent=persistent)) for name, to in WAYS]
    for broker in pair.brokers.values():
        await until(lambda broker=broker: broker.core.flow.held)  # type: ignore[misc] # mypy takes its default for a parameter
        assert broker.core.context.memory >= broker.settings.memory_limit
    for channel in channels:
        channel.start()
    return tasks


async def emptied(pair: Pair, tasks: list["asyncio.Task[None]"]) -> None:
    """Consumers get everything, in order, and nothing is left behind."""
    found = await asyncio.gather(*(drain(pair, name) for name, _ in WAYS), *tasks)
    assert found[:2] == [[body(number) for number in range(MESSAGES)]] * 2
    for name, to in WAYS:
        queue = pair.brokers[name].core.destinations.queues[f"transmit.{to}"]
        await until(lambda queue=queue: not queue.messages)  # type: ignore[misc] # mypy takes its default for a parameter


@pytest.mark.parametrize(("kept", "persistent"), [(True, True), (True, False), (False, False)])
@in_loop
async def test_both_are_emptied_when_somebody_receives(tmp_path: Path, kept: bool, persistent: bool) -> None:
    settings: dict[str, object] = {} if kept else {"data": None}
    async with both_ways(tmp_path, batch=5, **settings) as pair:
        await emptied(pair, await filled(pair, persistent=persistent))


@in_loop
async def test_both_wait_for_somebody_to_receive_and_then_go_on(tmp_path: Path) -> None:
    """Their channels take what they may; after that only consumers make room."""
    async with both_ways(tmp_path, batch=5) as pair:
        tasks = await filled(pair, persistent=True)
        for broker in pair.brokers.values():
            queues = broker.core.destinations.queues
            await until(lambda queues=queues: "q" in queues and queues["q"].messages)  # type: ignore[misc] # mypy takes its default for a parameter
        await emptied(pair, tasks)


@in_loop
async def test_a_channel_moves_while_a_queue_that_nobody_receives_from_fills_the_memory(tmp_path: Path) -> None:
    async with both_ways(tmp_path) as pair:
        session = await pair.session("B")
        producer = await session.producer("queue:idle")
        filling = asyncio.ensure_future(_send(producer, MESSAGES))
        await until(lambda: pair.brokers["B"].core.flow.held)
        sending = asyncio.ensure_future(fill(pair, "A", "B", persistent=True))
        assert await drain(pair, "B") == [body(number) for number in range(MESSAGES)]
        await sending
        assert pair.brokers["B"].core.context.memory >= MEMORY
        filling.cancel()


@in_loop
async def test_messages_that_are_longer_than_a_window(tmp_path: Path) -> None:
    async with both_ways(tmp_path, memory_limit=8 * BODY) as pair:
        await emptied(pair, await filled(pair, persistent=False))


async def _send(producer: aio.Producer, messages: int) -> None:
    for number in range(messages):
        await producer.send_batch(encode([body(number)]))
