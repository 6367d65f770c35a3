"""Request and reply, and what else a role may want of a native connection."""

import asyncio
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt
import pytest
import uvloop

from drivers.answers import Answers
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.inprocess.local_broker import LocalBroker
from mqlab.broker.server.startup import running
from mqlab.broker.settings import Settings
from mqlab.client import aio
from mqlab.client.connection import NativeClientConnection
from mqlab.client.errors import MessagingError
from mqlab.client.headers import Headers, MessageEncoder, ProducerDefaults
from mqlab.drivers import DRIVERS, DriverConnection, DriverError, ReceiverOptions, Reply, RequestBatch
from mqlab.drivers.api import Acknowledge
from mqlab.drivers.common import pending_reply
from mqlab.drivers.native.request_reply import NativeRequester, NativeResponder
from mqlab.wire.native import frames as native
from mqlab.wire.native.frames import Kind

from .test_driver import Connect, against_a_broker, bodies, near_a_broker, received

REQUESTS, REPLIES = "queue:requests", "queue:replies"


@pytest.mark.parametrize("persistent", [True, False])
def test_a_requester_gets_the_reply_to_its_own_request(tmp_path: Path, persistent: bool) -> None:
    async def play(connect: Connect) -> None:
        connection = await connect()
        requesters = [await connection.requester(REQUESTS, REPLIES, persistent=persistent) for _ in range(5)]
        responder = await connection.responder(REQUESTS, prefetch=10, persistent=persistent)
        answers = Answers()
        responder.start(answers)
        for turn in range(3):
            asked = [one.request(b"%d" % n, f"{n}-{turn}") for n, one in enumerate(requesters)]
            replies = await asyncio.gather(*asked)
            assert [*replies] == [Reply(b"re:%d" % n, False) for n in range(5)]
        await responder.stop()
        assert answers.confirmed == (len(answers.batches) if persistent else 0)
        await responder.close()
        for one in requesters:
            await one.close()
        await connection.close()
        assert not answers.failed.done()

    near_a_broker(tmp_path, play)


def test_a_requester_in_the_brokers_own_event_loop(tmp_path: Path) -> None:
    """There the broker delivers within a call of the client: no callback may run before that call has returned."""

    async def main() -> None:
        broker = LocalBroker(Settings(name="rr", listen=(), data=tmp_path))
        async with asyncio.timeout(240), broker:
            connection = await DRIVERS["native"]("bindings:rr").connect()
            requester = await connection.requester(REQUESTS, REPLIES, persistent=False)
            responder = await connection.responder(REQUESTS, prefetch=10, persistent=False)
            responder.start(Answers())
            found: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            replies: list[bytes] = []

            def on_reply(reply: Reply | DriverError) -> None:
                assert isinstance(reply, Reply)
                replies.append(reply.body)
                ask()

            def ask() -> None:
                number = len(replies)
                if number == 2000:
                    found.set_result(None)
                else:
                    requester.ask(b"%d" % number, f"1-{number}", on_reply)
                    assert len(replies) == number

            ask()
            await found
            assert replies == [b"re:%d" % number for number in range(2000)]
            await connection.close()

    uvloop.run(main())


@pytest.mark.parametrize("persistent", [True, False])
def test_replies_go_to_where_each_requester_wants_them(tmp_path: Path, persistent: bool) -> None:
    """Requests that came together, with more than one reply queue."""

    async def play(broker: Broker, connection: DriverConnection) -> None:
        requesters = [await connection.requester(REQUESTS, f"queue:{n % 2}", persistent=persistent) for n in range(4)]
        asked = [asyncio.ensure_future(one.request(b"%d" % n, f"n-{n}")) for n, one in enumerate(requesters)]
        while broker.status()["messages"] < 4:
            await asyncio.sleep(0.001)
        responder, answers = await connection.responder(REQUESTS, prefetch=10, persistent=persistent), Answers()
        responder.start(answers)
        assert [(await one).body for one in asked] == [b"re:%d" % n for n in range(4)]
        assert sum(len(batch.bodies) for batch in answers.batches) == 4

    async def main() -> None:
        settings = Settings(data=tmp_path, listen=("tcp:127.0.0.1:0",))
        async with asyncio.timeout(240), running(settings) as (broker, (address,)):
            connection = await DRIVERS["native"](str(address)).connect()
            await play(broker, connection)
            await connection.close()

    uvloop.run(main())


def test_redelivered_requests_are_received_apart_from_the_others() -> None:
    """What is received together is recorded as redelivered, or not, as a whole."""

    async def play() -> None:
        connection, encoder = NativeClientConnection(), MessageEncoder(ProducerDefaults())
        consumer = aio.Consumer(connection, 1, 2, REQUESTS, 100, "client")
        for first, delivered in ((1, 2), (2, 0), (3, 0), (4, 1), (5, 2)):
            request = encoder.message(b"%d" % first, {"reply_to": REPLIES, "correlation_id": "x"}, None)
            consumer.on_delivery(first, request, delivered, False, REQUESTS)
        responder = NativeResponder(aio.Session(connection, 1, "client"), consumer, persistent=False)
        arrivals = [responder.take_requests() for _ in range(4)]
        assert arrivals == [
            RequestBatch([b"1"], True), RequestBatch([b"2", b"3"], False), RequestBatch([b"4", b"5"], True), None,
        ]  # fmt: skip

    uvloop.run(play())


class Writes:
    """In place of the socket."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []

    def writelines(self, buffers: list[bytes]) -> None:
        self.writes.append(b"".join(buffers))

    def close(self) -> None: ...


def feed(connection: NativeClientConnection, data: bytes) -> None:
    connection.get_buffer(-1)[: len(data)] = data
    connection.buffer_updated(len(data))


def delivery(body: bytes, link: int, first: int) -> bytes:
    headers: Headers = {"reply_to": REPLIES, "correlation_id": body.decode()}
    request = MessageEncoder(ProducerDefaults()).message(body, headers, None)
    return native.HEADER.pack(len(request.data), Kind.DELIVER, request.form, 0, link, first, 1) + bytes(request.data)


def test_the_replies_to_all_requests_of_a_read_leave_together_with_the_acknowledgement() -> None:
    async def play() -> None:
        connection, socket = NativeClientConnection(), Writes()
        connection.connection_made(cast(asyncio.Transport, socket))
        session, consumer = aio.Session(connection, 1, "auto"), aio.Consumer(connection, 1, 2, REQUESTS, 100, "auto")
        connection.attach(2, consumer)
        responder = NativeResponder(session, consumer, persistent=False)
        opening = asyncio.ensure_future(session.producer(REPLIES))
        await asyncio.sleep(0)
        feed(connection, native.header(Kind.OPENED, session=1, link=1))
        responder._producers[REPLIES] = await opening
        feed(connection, native.header(Kind.CREDIT, session=1, link=1, amount=1 << 20))
        responder.start(Answers())
        await asyncio.sleep(0)
        socket.writes.clear()
        feed(connection, b"".join(delivery(b"%d" % first, 2, first) for first in range(1, 4)))
        [written] = socket.writes
        frames = native.FrameDecoder(1 << 20).feed(written)
        assert [frame.kind for frame in frames] == [Kind.SEND, Kind.SEND, Kind.SEND, Kind.ACKNOWLEDGE]
        assert frames[-1].first == 3

    uvloop.run(play())


def test_a_read_that_fails_halfway_ends_the_responder() -> None:
    class Broken:
        def handle(self, frame: native.Frame) -> None:
            raise KeyError(frame.link)

        def lost(self, error: MessagingError) -> None: ...

    async def play() -> None:
        connection = NativeClientConnection()
        connection.connection_made(cast(asyncio.Transport, Writes()))
        consumer, answers = aio.Consumer(connection, 1, 2, REQUESTS, 100, "auto"), Answers()
        connection.attach(2, consumer)
        connection.attach(3, Broken())
        responder = NativeResponder(aio.Session(connection, 1, "auto"), consumer, persistent=False)
        responder.start(answers)
        await asyncio.sleep(0)
        with pytest.raises(KeyError) as broken:
            feed(connection, delivery(b"1", 2, 1) + delivery(b"2", 3, 1))
        # The event loop does this after an error of the reader.
        connection.connection_lost(broken.value)
        assert "connection to the broker is lost" in str(await asyncio.wait_for(answers.failed, 200))

    uvloop.run(play())


def test_a_reply_that_comes_when_its_request_was_abandoned_is_not_that_to_the_next(tmp_path: Path) -> None:
    async def main() -> None:
        broker = LocalBroker(Settings(name="late", listen=(), data=tmp_path))
        async with asyncio.timeout(240), broker:
            connection = await DRIVERS["native"]("bindings:late").connect()
            requester = await connection.requester(REQUESTS, REPLIES, persistent=False)
            assert isinstance(requester, NativeRequester)
            responder = await connection.responder(REQUESTS, prefetch=10, persistent=False)
            responder.start(Answers())
            requester.ask(b"1", "1-1", lambda _: None)
            # Until the reply is there, but before the event loop calls the requester.
            while not requester._requester._consumer._deliveries:
                await asyncio.sleep(0)
            requester.stop()
            assert (await requester.request(b"2", "1-2")).body == b"re:2"
            await connection.close()

    uvloop.run(main())


def test_requests_whose_replies_are_not_confirmed_go_to_the_next_responder(tmp_path: Path) -> None:
    async def play(connection: DriverConnection) -> None:
        requester = await connection.requester(REQUESTS, REPLIES, persistent=False)
        asked = asyncio.ensure_future(requester.request(b"1", "1-1"))
        for redelivered in (False, True):
            responder, answers = await connection.responder(REQUESTS, prefetch=10, persistent=True), Answers()
            responder.start(answers)
            while not answers.batches:
                await asyncio.sleep(0)
            assert answers.batches == [RequestBatch([b"1"], redelivered)]
            if not redelivered:
                await responder.stop()
                await responder.close()
        assert (await asked).body == b"re:1"

    against_a_broker(tmp_path, play)


def test_requests_of_a_stopped_responder_go_to_the_next_one(tmp_path: Path) -> None:
    async def play(connection: DriverConnection) -> None:
        requester = await connection.requester(REQUESTS, REPLIES, persistent=False)
        first, answers = await connection.responder(REQUESTS, prefetch=10, persistent=False), Answers()
        first.start(answers)
        await requester.request(b"1", "1-1")
        await first.stop()
        asked = asyncio.ensure_future(requester.request(b"2", "1-2"))
        await asyncio.sleep(0)
        await first.close()
        assert [batch.bodies for batch in answers.batches] == [[b"1"]]
        second = await connection.responder(REQUESTS, prefetch=10, persistent=False)
        second.start(Answers())
        assert (await asked).body == b"re:2"

    against_a_broker(tmp_path, play)


def test_preloaded_messages_are_in_nobodys_way(tmp_path: Path) -> None:
    async def play(connection: DriverConnection) -> None:
        await connection.preload(REPLIES, bodies(*[7] * 2500), persistent=False)
        requester = await connection.requester(REQUESTS, REPLIES, persistent=False)
        responder = await connection.responder(REQUESTS, prefetch=1, persistent=False)
        responder.start(Answers())
        assert (await requester.request(b"request", "preload")).body == b"re:request"
        receiver = await connection.receiver(REPLIES, ReceiverOptions(5000))
        number = 0
        while number < 2500:
            arrival = await receiver.receive()
            assert set(arrival.bodies.tolist()) == {b"\7" * 12}
            number += len(arrival.bodies)
        assert number == 2500

    against_a_broker(tmp_path, play)


def test_a_request_that_wants_no_reply_is_an_error(tmp_path: Path) -> None:
    async def play(connection: DriverConnection) -> None:
        responder, answers = await connection.responder(REQUESTS, prefetch=1, persistent=False), Answers()
        responder.start(answers)
        sender = await connection.sender(REQUESTS, persistent=False, transacted=False)
        await sender.send(bodies(1), wait=False)
        error = await answers.failed
        assert isinstance(error, DriverError)
        assert "no reply address" in str(error)

    against_a_broker(tmp_path, play)


def test_a_request_without_a_reply_fails_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the next one gets its own reply, not the late one."""

    async def play(connection: DriverConnection) -> None:
        requester = await connection.requester(REQUESTS, REPLIES, persistent=False)
        monkeypatch.setattr(pending_reply, "BLOCKED_TIMEOUT_S", 0.05)
        with pytest.raises(DriverError, match=r"no reply to the request came within 0\.05 s"):
            await requester.request(b"first", "1-1")
        monkeypatch.setattr(pending_reply, "BLOCKED_TIMEOUT_S", 200)
        responder = await connection.responder(REQUESTS, prefetch=1, persistent=False)
        responder.start(Answers())
        for turn in range(2, 5):
            assert (await requester.request(b"next", f"1-{turn}")).body == b"re:next"
        await requester.close()

    against_a_broker(tmp_path, play)


def test_a_connection_that_is_gone_is_a_driver_error(tmp_path: Path) -> None:
    async def play(connect: Connect) -> None:
        connection = await connect()
        requester = await connection.requester(REQUESTS, REPLIES, persistent=False)
        responder, answers = await connection.responder("queue:others", prefetch=1, persistent=False), Answers()
        responder.start(answers)
        asked = asyncio.ensure_future(requester.request(b"x", "1"))
        await asyncio.sleep(0)
        await connection.close()
        for one in (asked, requester.close(), requester.request(b"x", "2")):
            with pytest.raises(DriverError):
                await one
        assert isinstance(await answers.failed, DriverError)

    near_a_broker(tmp_path, play)


@pytest.mark.parametrize("rows", [1, 6])
def test_a_selector_sees_the_properties(tmp_path: Path, rows: int) -> None:
    async def play(connection: DriverConnection) -> None:
        sender = await connection.sender("queue:q", persistent=False, transacted=False)
        for producer in (3, 4):
            numbers = np.full(rows, producer, dtype=np.int32)
            properties: dict[str, npt.NDArray[np.integer]] = {"seq": np.arange(rows) + 2**40, "producer": numbers}
            await sender.send(bodies(*[producer] * rows), wait=False, properties=properties)
        chosen = await connection.receiver("queue:q", ReceiverOptions(100, selector=f"producer = 4 AND seq >= {2**40}"))
        assert await received(chosen, rows) == [b"\4" * 12] * rows
        rest = await connection.receiver("queue:q", ReceiverOptions(100))
        assert await received(rest, rows) == [b"\3" * 12] * rows

    against_a_broker(tmp_path, play)


def test_a_durable_subscription_keeps_what_comes_while_nobody_is_there(tmp_path: Path) -> None:
    async def play(connection: DriverConnection) -> None:
        how = ReceiverOptions(100, selector="seq >= 0", durable="mine")
        await connection.subscribe("topic:t", how)
        sender = await connection.sender("topic:t", persistent=False, transacted=False)
        await sender.send(bodies(1, 2), wait=True, properties={"seq": np.arange(2)})
        receiver = await connection.receiver("topic:t", how)
        assert len(await received(receiver, 2)) == 2
        with pytest.raises(DriverError, match="in use"):
            await connection.unsubscribe("mine")
        await receiver.close()
        await connection.unsubscribe("mine")
        with pytest.raises(DriverError, match="no durable subscription"):
            await connection.unsubscribe("mine")

    against_a_broker(tmp_path, play)


@pytest.mark.parametrize("mode", ["auto", "dups_ok", "client"])
def test_what_was_received_is_acknowledged_when_the_next_is_asked_for(tmp_path: Path, mode: Acknowledge) -> None:
    async def play(connect: Connect) -> None:
        connection, other = await connect(), await connect()
        sender = await connection.sender("queue:q", persistent=False, transacted=False)
        receiver = await connection.receiver("queue:q", ReceiverOptions(1, mode))
        for n in (1, 2):
            await sender.send(bodies(n), wait=True)
        for n in (1, 2):
            assert (await receiver.receive()).bodies.tolist() == [bytes([n]) * 12]
        await connection.close()
        # The first was done when the second was asked for; the second comes again.
        again = await other.receiver("queue:q", ReceiverOptions(1))
        arrival = await again.receive()
        assert (arrival.bodies.tolist(), arrival.redelivered) == ([b"\2" * 12], True)
        await other.close()

    near_a_broker(tmp_path, play)
