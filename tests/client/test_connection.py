"""Coalesced writes of a connection: frames of tasks that one read woke, and acknowledgements."""

import asyncio
from collections.abc import Iterable

from broker.server.raw_client import in_loop
from mqlab.client.connection import NativeClientConnection
from mqlab.client.consumer import Consumer
from mqlab.wire.native import frames as native
from mqlab.wire.native.columns import encode_single
from mqlab.wire.native.frames import Frame, Kind

_LIMIT = 1 << 20


class Writes(asyncio.Transport):
    """Notes the frames of each write."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[list[Frame]] = []

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.frames.append(native.FrameDecoder(_LIMIT).feed(b"".join(list_of_data)))

    def kinds(self) -> list[list[int]]:
        return [[frame.kind for frame in frames] for frames in self.frames]


def connected() -> tuple[NativeClientConnection, Writes]:
    connection, writes = NativeClientConnection(), Writes()
    connection.connection_made(writes)
    return connection, writes


def consumer_of(connection: NativeClientConnection, link: int, prefetch: int) -> Consumer:
    consumer = Consumer(connection, 1, link, "queue:q", prefetch, "auto")
    connection.attach(link, consumer)
    return consumer


def deliver(connection: NativeClientConnection, *ids: tuple[int, int]) -> None:
    """One read with a message for each link and delivery id."""
    data = b""
    for link, first in ids:
        payload = encode_single(b"body", ("correlation_id",), "s", ("id",))
        size = len(payload.data)
        head = native.header(Kind.DELIVER, flags=payload.form, link=link, first=first, amount=1, length=size)
        data += head + bytes(payload.data)
    connection.get_buffer(-1)[: len(data)] = data
    connection.buffer_updated(len(data))


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@in_loop
async def test_all_who_were_woken_by_one_read_write_once() -> None:
    connection, writes = connected()

    async def ask(consumer: Consumer) -> None:
        for _ in range(2):
            connection.hold_flush = True
            await consumer.receive(correlation_id="id")

    tasks = [asyncio.ensure_future(ask(consumer_of(connection, link, 0))) for link in (1, 2, 3)]
    await turns()
    writes.frames.clear()
    deliver(connection, (1, 1), (2, 1), (3, 1))
    await turns()
    # Each says with it that what it had is done.
    (said,) = writes.frames
    assert [(frame.kind, frame.link, frame.first) for frame in said] == [(Kind.RECEIVE, link, 1) for link in (1, 2, 3)]
    deliver(connection, (1, 2), (2, 2), (3, 2))
    await asyncio.gather(*tasks)


@in_loop
async def test_who_is_woken_alone_writes_before_he_waits() -> None:
    connection, writes = connected()
    consumer = consumer_of(connection, 1, 1)
    written: list[int] = []

    async def receive() -> None:
        await consumer.receive_batch()
        consumer.acknowledge()
        connection.flush_before_wait()
        written.append(len(writes.frames))

    task = asyncio.ensure_future(receive())
    await turns()
    deliver(connection, (1, 1))
    await task
    assert written == [1]
    await turns()
    assert writes.kinds() == [[Kind.ACKNOWLEDGE]]


@in_loop
async def test_what_came_together_and_is_done_is_told_once() -> None:
    connection, writes = connected()
    consumer = consumer_of(connection, 1, 8)

    async def receive() -> None:
        while True:
            await consumer.receive_batch()

    task = asyncio.ensure_future(receive())
    await turns()
    deliver(connection, (1, 1), (1, 2), (1, 3))
    await turns()
    ((told,),) = writes.frames
    assert (told.kind, told.first, told.amount) == (Kind.ACKNOWLEDGE, 3, 3)
    task.cancel()
    await asyncio.wait([task])


@in_loop
async def test_what_is_done_is_told_though_the_next_takes_its_time() -> None:
    connection, writes = connected()
    consumer = consumer_of(connection, 1, 4)
    deliver(connection, (1, 1), (1, 2), (1, 3))
    for _ in range(2):
        await consumer.receive_batch()
    await turns()
    ((told,),) = writes.frames
    assert (told.kind, told.first, told.amount) == (Kind.ACKNOWLEDGE, 1, 1)
