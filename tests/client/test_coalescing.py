"""Single sends that gather and leave together: when they leave, in which order, and what is left if the client dies."""

import asyncio
import itertools
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from broker.server.raw_client import client, in_loop, local
from mqlab.broker import limits
from mqlab.broker.settings import Settings
from mqlab.client import RefusedError, aio, connect
from mqlab.client.connection import NativeClientConnection
from mqlab.client.headers import MessageEncoder, ProducerDefaults
from mqlab.wire.native import frames as native
from mqlab.wire.native.bodies import Payload, decode, encode
from mqlab.wire.native.frames import FORM, Flag, Kind

from .broker_helpers import Served, running, serving
from .test_connection import connected, turns

each_way = pytest.mark.usefixtures("each_way")


def numbers(begin: int, end: int) -> list[bytes]:
    return [b"%d" % n for n in range(begin, end)]


async def receive(consumer: aio.Consumer, count: int) -> list[bytes]:
    return [(await consumer.receive(timeout=240)).body for _ in range(count)]


# Order


@each_way
@pytest.mark.parametrize("names", [("queue:a", "queue:a"), ("topic:a.x", "topic:a.y")], ids=["queue", "topics"])
@in_loop
async def test_the_order_of_a_session_holds_across_its_producers(names: tuple[str, str]) -> None:
    async with running(local()) as (_, (address,)):
        connection = await client(address)
        consumer = await (await connection.session()).consumer(names[0].replace(".x", ".*"))
        session = await connection.session()
        producers = [await session.producer(name) for name in names]
        for n in range(300):
            await producers[n // 3 % 2 if n < 200 else 0].send(b"%d" % n)
        assert await receive(consumer, 300) == numbers(0, 300)


@each_way
def test_the_order_of_a_blocking_session_holds_across_its_producers(served: Served) -> None:
    with connect(served.address) as connection:
        consumer = connection.session().consumer("topic:a.*", prefetch=10_000)
        session = connection.session()
        producers = [session.producer("topic:a.x"), session.producer("topic:a.y")]
        for n in range(3000):
            producers[n // 7 % 2].send(b"%d" % n)
        assert [consumer.receive(timeout=240).body for _ in range(3000)] == numbers(0, 3000)


@each_way
@in_loop
async def test_another_producer_goes_on_while_one_is_held_back() -> None:
    async with running(local(queue_limit=10_000, producer_window=10_000)) as (_, (address,)):
        session = await (await client(address)).session()
        held, free = await session.producer("queue:full"), await session.producer("queue:free")
        while held.unsent < 10:
            await held.send(b"x" * 1000)
            await turns(1)
        consumer = await session.consumer("queue:free")
        await free.send(b"1")
        await free.send_batch(encode([b"2"]), confirm=True)
        assert await receive(consumer, 2) == [b"1", b"2"]


# When messages leave


class NoTimers(asyncio.SelectorEventLoop):
    def call_at(self, *_: object, **__: object) -> asyncio.TimerHandle:
        raise AssertionError("somebody set a timer")


def test_a_message_by_itself_leaves_without_a_timer() -> None:
    with serving(local()) as served:

        async def main() -> list[bytes]:
            connection = await aio.connect(served.address)
            session = await connection.session()
            consumer, producer = await session.consumer("queue:q"), await session.producer("queue:q")
            bodies = []
            for body in numbers(0, 3):
                await producer.send(body)
                bodies.append((await consumer.receive()).body)
            await connection.drop()
            return bodies

        with asyncio.Runner(loop_factory=NoTimers) as runner:
            assert runner.run(main()) == numbers(0, 3)


def producer_of(connection: NativeClientConnection, link: int, gathering: list[aio.Producer]) -> aio.Producer:
    encoder = MessageEncoder(ProducerDefaults())
    producer = aio.Producer(connection, 1, link, "queue:q", encoder, transacted=False, gathering=gathering)
    connection.attach(link, producer)
    producer.handle(native.Frame(Kind.CREDIT, 0, 1, link, 0, 1 << 20, b""))
    return producer


def bodies_of(frame: native.Frame) -> list[bytes]:
    return decode(Payload(frame.payload, frame.amount, frame.flags & FORM)).tolist()


@in_loop
async def test_while_the_socket_takes_nothing_messages_gather_and_then_leave_in_one_frame() -> None:
    connection, writes = connected()
    producer = producer_of(connection, 1, [])
    connection.pause_writing()
    for body in numbers(0, 10):
        await producer.send(body)
        await turns()
    assert writes.frames == []
    connection.resume_writing()
    await turns()
    ((frame,),) = writes.frames
    assert (bodies_of(frame), frame.flags & Flag.COALESCED) == (numbers(0, 10), Flag.COALESCED)


@pytest.mark.parametrize("action", ["flush", "confirmed", "batch", "headers", "close", "ask"])
@in_loop
async def test_while_the_socket_takes_nothing_a_caller_that_waits_makes_them_leave(action: str) -> None:
    connection, writes = connected()
    producer = producer_of(connection, 1, [])
    connection.pause_writing()
    await producer.send(b"0")
    await producer.send(b"1")
    actions: dict[str, Callable[[], Awaitable[object]]] = {
        "flush": producer.flush,
        "confirmed": lambda: producer.send(b"2", persistent=True),
        "batch": lambda: producer.send_batch(encode([b"2", b"3"])),
        "headers": lambda: producer.send(b"2", priority=1),
        "close": producer.close,
        "ask": lambda: connection.admin_request("status"),
    }
    task = asyncio.ensure_future(actions[action]())
    await turns()
    frames = list(itertools.chain(*writes.frames))
    assert bodies_of(frames[0]) == [b"0", b"1"]
    # In sequence, without a gap.
    sends = [frame for frame in frames if frame.kind == Kind.SEND]
    assert [frame.first for frame in sends] == [1, 3][: len(sends)]
    task.cancel()


@in_loop
async def test_a_frame_holds_a_bounded_number_of_messages_and_bytes() -> None:
    connection, writes = connected()
    producer = producer_of(connection, 1, [])
    small, large = numbers(0, 10_000), [bytes([n]) * 100_000 for n in range(8)]
    producer.gather(small)
    producer.gather(large)
    await producer.flush()
    await turns()
    frames = list(itertools.chain(*writes.frames))
    assert list(itertools.chain(*map(bodies_of, frames))) == small + large
    amounts = [frame.amount for frame in frames]
    assert [frame.first for frame in frames] == [*itertools.accumulate(amounts[:-1], initial=1)]
    assert max(amounts) == 4096
    assert max(len(frame.payload) for frame in frames if frame.amount > 1) < 500_000


@pytest.mark.parametrize(
    ("more_credit", "frame_limit", "lengths"),
    [
        (1 << 26, 1 << 26, [1_000_000, 1_000_000]),
        # The second frame has no credit for so much.
        (100_000, 1 << 26, [1_000_000, 250_000]),
        (1 << 26, 1 << 20, [250_000, 250_000]),
    ],
)
@in_loop
async def test_a_frame_is_long_if_the_broker_takes_it_and_the_credit_lasts(
    more_credit: int, frame_limit: int, lengths: list[int]
) -> None:
    connection, writes = connected()
    producer = producer_of(connection, 1, [])
    producer.handle(native.Frame(Kind.CREDIT, 0, 1, 1, 0, more_credit, b""))
    connection.frame_limit = frame_limit
    bodies = [bytes(1000) for _ in range(3000)]
    producer.gather(bodies)
    await turns()
    frames = [*itertools.chain(*writes.frames)]
    for frame, length in zip(frames, lengths, strict=False):
        assert length <= len(frame.payload) < 1.2 * length


@in_loop
async def test_the_frames_of_single_sends_fit_the_smallest_limit_of_a_broker() -> None:
    async with running(Settings(max_message_size=limits.FRAME_LEAST, listen=("tcp:127.0.0.1:0",))) as (_, (address,)):
        session = await (await aio.connect(str(address))).session()
        producer = await session.producer("queue:q")
        for body in (small := numbers(0, 10_000)):
            await producer.send(body)
        for body in (large := [bytes([n % 256]) * 1000 for n in range(3000)]):
            await producer.send(body)
        assert await receive(await session.consumer("queue:q"), 13_000) == small + large


# Errors and transactions


@each_way
def test_a_refusal_is_raised_once_by_the_next_send_and_that_one_is_not_sent(forgetful: Served) -> None:
    with connect(forgetful.address) as connection:
        producer = connection.session().producer("queue:q")
        producer.send_batch(encode([b"refused"]), persistent=True)
        connection.status()  # the refusal is here by now
        with pytest.raises(RefusedError):
            producer.send(b"1")
        producer.send(b"2")
        producer.close()
        consumer = connection.session().consumer("queue:q")
        assert consumer.receive(timeout=240).body == b"2"
        assert connection.status()["messages"] == 1


@each_way
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_gathered_sends_belong_to_the_transaction(served: Served, end: str) -> None:
    with connect(served.address) as connection:
        session = connection.session("transacted")
        producers = [session.producer("queue:q") for _ in range(2)]
        for n in range(100):
            producers[n // 9 % 2].send(b"%d" % n)
        getattr(session, end)()
        assert connection.status()["messages"] == (100 if end == "commit" else 0)
        producers[0].send(b"100")
        session.commit()
        consumer = connection.session().consumer("queue:q")
        expected = numbers(0 if end == "commit" else 100, 101)
        assert [consumer.receive(timeout=240).body for _ in expected] == expected


# The client dies

# Sends messages that gather, and now and then a persistent one; tells how many were sent when that is confirmed.
CLIENT = """
import itertools, sys
from mqlab.client import connect
producer = connect(sys.argv[1]).session().producer("queue:q")
for number in itertools.count(1):
    body = b"%d" % number * 20
    if number % 500:
        producer.send(body)
    else:
        producer.send(body, persistent=True)
        print(number, flush=True)
"""


@pytest.mark.parametrize("confirmations", [1, 7])
@in_loop
async def test_a_client_that_is_killed_loses_nothing_confirmed_and_leaves_no_half(
    tmp_path: Path, confirmations: int
) -> None:
    async with running(local(data=tmp_path)) as (broker, (address,)):
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", CLIENT, str(address), stdout=pipe)
        try:
            assert process.stdout is not None
            for _ in range(confirmations):
                confirmed = int(await process.stdout.readline())
        finally:
            process.kill()
            await process.wait()
        while broker.connections:
            await asyncio.sleep(0.001)
        connection = await client(address)
        there = int((await connection.status())["messages"])
        consumer = await (await connection.session()).consumer("queue:q", prefetch=100_000)
        bodies = await receive(consumer, there)
    # All that was sent before the last confirmation, and then whole messages without a gap.
    assert there >= confirmed
    assert bodies == [b"%d" % number * 20 for number in range(1, there + 1)]


@each_way
@in_loop
async def test_a_confirmation_covers_all_that_was_gathered_before(tmp_path: Path) -> None:
    async with running(local(data=tmp_path)) as (_, (address,)):
        session, other = await (await client(address)).session(), await client(address)
        producers = [await session.producer("queue:q") for _ in range(3)]
        for n in range(1, 200):
            await producers[n % 3].send(b"gathered")
            if n % 10 == 0:
                await producers[0].send(b"confirmed", persistent=True)
                assert (await other.status())["messages"] == n + n // 10
