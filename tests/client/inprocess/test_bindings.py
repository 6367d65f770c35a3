"""A client in the broker's process, where it differs from a client with a socket."""

import asyncio
import threading
from collections.abc import Iterable

import numpy as np
import pytest
import uvloop

from broker.core.commands import held_messages
from broker.server.raw_client import client, in_loop
from features.message_helpers import numbers, receive
from mqlab.broker import limits
from mqlab.broker.server.inprocess.local_broker import LocalBroker
from mqlab.broker.settings import Settings
from mqlab.client import aio, blocking
from mqlab.client.errors import ClosedError, MessagingError
from mqlab.client.inprocess.transport import CrossThreadTransport, InProcessTransport, SerialDispatcher
from mqlab.wire.address import Address
from mqlab.wire.native.bodies import SINGLE, Payload, encode, encode_equal
from mqlab.wire.native.frames import Frame

HERE = Address.parse("bindings:here")


def here(**chosen: object) -> LocalBroker:
    return LocalBroker(Settings.flat(name="here", listen=(), **chosen))


def frame(number: int, payload: bytes = b"") -> Frame:
    return Frame(13, 0, 0, 0, number, 0, payload)


class RecordingEndpoint:
    """Notes what comes, and does what a test wants done with it."""

    def __init__(self) -> None:
        self.came: list[int] = []
        self.said: list[str] = []
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...

    def frames_received(self, frames: Iterable[Frame]) -> None:
        for one in frames:
            self.handle(one)

    def handle(self, one: Frame) -> None:
        self.came.append(one.first)

    def connection_lost(self, error: Exception | None) -> None:
        assert error is None
        self.lost.set()

    def pause_writing(self) -> None:
        self.said.append("pause")

    def resume_writing(self) -> None:
        self.said.append("resume")


def joined(one: RecordingEndpoint, other: RecordingEndpoint) -> tuple[InProcessTransport, InProcessTransport]:
    loop = asyncio.get_running_loop()
    first, second = (
        InProcessTransport(one, loop, SerialDispatcher()),
        InProcessTransport(other, loop, SerialDispatcher()),
    )
    first.peer, second.peer = second, first
    return first, second


@in_loop
async def test_a_name_that_no_broker_has() -> None:
    with pytest.raises(ConnectionRefusedError, match="'nobody'"):
        await aio.connect("bindings:nobody")
    with pytest.raises(ConnectionRefusedError, match="'nobody'"):
        await asyncio.to_thread(blocking.connect, "bindings:nobody")


@in_loop
async def test_what_is_sent_is_neither_copied_nor_read_again() -> None:
    async with here():
        session = await (await client(HERE)).session()
        producer, consumer = await session.producer("queue:q"), await session.consumer("queue:q")
        for sent in (encode([b"single"]), encode_equal(np.zeros(400, dtype=np.uint8), 100)):
            await producer.send_batch(sent)
            assert (await consumer.receive_batch(timeout=240)).payload.data is sent.data


@in_loop
async def test_what_its_owner_changes_later_was_sent_as_it_was() -> None:
    async with here():
        session = await (await client(HERE)).session()
        producer, consumer = await session.producer("queue:q"), await session.consumer("queue:q")
        body = bytearray(b"before")
        for data in (body, memoryview(body)):
            body[:] = b"before"
            await producer.send_batch(Payload(data, 1, SINGLE))
            body[:] = b"after!"
            assert (await consumer.receive(timeout=240)).body == b"before"


@in_loop
async def test_the_brokers_memory_can_only_be_read() -> None:
    """A large message of a client elsewhere stays where it was received, and is shown from there."""
    async with LocalBroker(Settings.flat(name="here", listen=("tcp:127.0.0.1:0",))) as broker:
        far, near = await client(broker.addresses[0]), await client(HERE)
        consumer = await (await near.session()).consumer("queue:q")
        await (await (await far.session()).producer("queue:q")).send_batch(encode([b"x" * 100_000]))
        delivery = await consumer.receive_batch(timeout=240)
        assert memoryview(delivery.payload.data).readonly
        with pytest.raises(ValueError, match="read-only"):
            delivery.bodies().data[0] = 1


@in_loop
async def test_a_frame_above_the_limit_ends_the_connection() -> None:
    most = limits.FRAME_LEAST
    async with here(max_message_size=most) as broker:
        connection = await client(HERE)
        producer = await (await connection.session()).producer("queue:q")
        await producer.send_batch(encode([b"x" * (most + 1)]))
        with pytest.raises(ClosedError, match=f"a frame of {most + 1} bytes"):
            await connection.status()
        assert broker.broker.core.destinations.queues["q"].messages == 0


@in_loop
async def test_one_who_never_has_to_wait_leaves_turns_to_others() -> None:
    """Each receive is answered while it is asked; without a bound, nothing else would run before the last."""
    async with here():
        session = await (await client(HERE)).session()
        await (await session.producer("queue:q")).send_batch(encode(numbers(0, 1000)))
        consumer, turns = await session.consumer("queue:q", prefetch=0), 0

        async def another() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.ensure_future(another())
        await asyncio.sleep(0)
        before = turns
        assert await receive(consumer, 1000) == numbers(0, 1000)
        assert turns - before >= 10
        task.cancel()


@in_loop
async def test_sends_that_wait_for_the_turns_end_come_before_what_is_asked_after_them() -> None:
    async with here():
        connection = await client(HERE)
        producer = await (await connection.session()).producer("queue:q")
        for count in range(1, 200):
            await producer.send(b"x")
            assert (await connection.status())["messages"] == count


@in_loop
async def test_what_is_written_from_within_a_handler_comes_after_it() -> None:
    class Answering(RecordingEndpoint):
        transport: InProcessTransport

        def handle(self, one: Frame) -> None:
            super().handle(one)
            if one.first < 10:
                self.transport.send([frame(one.first + 10), frame(one.first + 20)])

    one, other = RecordingEndpoint(), Answering()
    near, other.transport = joined(one, other)
    near.send([frame(1), frame(2)])
    assert (other.came, one.came) == ([1, 2], [11, 21, 12, 22])

    # Both answer, for ever if they could: nothing grows on the stack.
    class Counting(Answering):
        def handle(self, one: Frame) -> None:
            RecordingEndpoint.handle(self, one)
            if one.first < 5000:
                self.transport.send([frame(one.first + 1)])

    first, second = Counting(), Counting()
    first.transport, second.transport = joined(first, second)
    first.transport.send([frame(0)])
    assert sorted(first.came + second.came) == [*range(5001)]


@in_loop
async def test_the_failure_of_a_handler_is_not_the_writers() -> None:
    class Failing(RecordingEndpoint):
        def handle(self, one: Frame) -> None:
            raise KeyError(one.first)

    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
    one, other = RecordingEndpoint(), Failing()
    near, far = joined(one, other)
    near.send([frame(1)])
    assert [str(error) for error in told] == ["1"]
    assert not one.lost.is_set()
    await asyncio.wait_for(asyncio.gather(one.lost.wait(), other.lost.wait()), 240)
    assert near.is_closing()
    assert far.is_closing()
    near.send([frame(2)])
    assert len(told) == 1


class Elsewhere:
    """A loop in another thread."""

    def __enter__(self) -> asyncio.AbstractEventLoop:
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        return self._loop

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@in_loop
async def test_who_writes_to_another_thread_pauses_until_that_has_taken_it() -> None:
    one, other, blocked = RecordingEndpoint(), RecordingEndpoint(), threading.Event()
    with Elsewhere() as there:
        near, far = CrossThreadTransport(one, asyncio.get_running_loop()), CrossThreadTransport(other, there)
        near.peer, far.peer = far, near
        near.set_write_buffer_limits(high=1000, low=100)
        there.call_soon_threadsafe(blocked.wait)
        near.send([frame(1, b"x" * 900)])
        assert one.said == []
        near.send([frame(2, b"x" * 900)])
        near.send([frame(3)])
        assert one.said == ["pause"]
        blocked.set()
        async with asyncio.timeout(240):
            while one.said != ["pause", "resume"]:
                await asyncio.sleep(0.001)
        assert other.came == [1, 2, 3]
        far_lost = asyncio.run_coroutine_threadsafe(other.lost.wait(), there)
        near.close()
        await asyncio.wait_for(asyncio.gather(one.lost.wait(), asyncio.wrap_future(far_lost)), 240)


@in_loop
async def test_a_client_in_another_thread_that_takes_nothing_holds_little() -> None:
    """Messages of 100 KB with room for all of them: the broker pauses the consumer, not the memory its growth."""
    most, size, blocked = 100, 100_000, threading.Event()

    async def consumer_there() -> tuple[aio.Connection, aio.Consumer]:
        connection = await aio.connect("bindings:here")
        return connection, await (await connection.session()).consumer("queue:q")

    async def all_of_them(connection: aio.Connection, consumer: aio.Consumer) -> list[int]:
        found = [len((await consumer.receive(timeout=240)).body) for _ in range(most)]
        await connection.close()
        return found

    with Elsewhere() as there:
        async with here(queue_limit=2 * most * size) as broker:
            connection, consumer = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(consumer_there(), there))
            there.call_soon_threadsafe(blocked.wait)
            try:
                near = await client(HERE)
                producer = await (await near.session()).producer("queue:q")
                for _ in range(most):
                    await producer.send_batch(encode([b"x" * size]))
                await near.status()
                (taking,) = broker.broker.core.destinations.queues["q"].consumers
                assert taking.paused
                assert held_messages(taking) <= 1024 * 1024 // size + 1
            finally:
                blocked.set()
            rest = asyncio.run_coroutine_threadsafe(all_of_them(connection, consumer), there)
            assert await asyncio.wrap_future(rest) == [size] * most


@in_loop
async def test_the_broker_ends_while_a_client_in_another_thread_waits() -> None:
    async def wait() -> None:
        connection = await aio.connect("bindings:here")
        await (await (await connection.session()).consumer("queue:q")).receive()

    with Elsewhere() as there:
        async with here() as broker:
            waiting = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(wait(), there))
            async with asyncio.timeout(240):
                while "q" not in broker.broker.core.destinations.queues:
                    await asyncio.sleep(0.001)
        with pytest.raises(ClosedError):
            await asyncio.wait_for(waiting, 240)


@in_loop
async def test_the_plain_api_does_not_block_the_brokers_loop() -> None:
    async with here():
        with pytest.raises(MessagingError, match=r"use mqlab\.client\.aio"):
            blocking.connect("bindings:here")


def forbidden() -> None:
    raise AssertionError("a loop thread was made")


def test_the_plain_api_needs_no_loop_beside_the_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking, "LoopThread", forbidden)
    with LocalBroker.in_thread(Settings(name="here", listen=())), blocking.connect("bindings:here") as connection:
        session = connection.session()
        session.producer("queue:q").send(b"1")
        assert session.consumer("queue:q").receive(timeout=240).body == b"1"


@in_loop
async def test_requests_and_replies_over_both_ways_at_once() -> None:
    """The responder is in the broker's process, a requester in it and one elsewhere."""
    async with LocalBroker(Settings.flat(name="here", listen=("tcp:127.0.0.1:0",))) as broker:

        async def respond(session: aio.Session) -> None:
            async for request in await session.consumer("queue:requests"):
                await session.reply(request, request.body.upper())

        responder = asyncio.ensure_future(respond(await (await client(HERE)).session()))
        for address in (HERE, broker.addresses[0]):
            requester = await (await (await client(address)).session()).requester("queue:requests", reply_to="queue:r")
            replies = [(await requester.request(f"ask {n}".encode(), 30)).body for n in range(200)]
            assert replies == [f"ASK {n}".encode() for n in range(200)]
        responder.cancel()
