"""A client in the broker's event loop: calls in place of frames, and the cases that need frames."""

import asyncio
from collections.abc import Iterable

import pytest

from broker.server.raw_client import client, in_loop
from client.inprocess.test_bindings import HERE, here
from mqlab.broker.server.inprocess.connection import InProcessConnection
from mqlab.client import aio
from mqlab.client.errors import ClosedError, RefusedError
from mqlab.wire.native.bodies import COLUMNS, SINGLE, Payload
from mqlab.wire.native.frames import Frame, Kind


def came(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The kinds of all frames that clients send from now on."""
    kinds: list[int] = []
    real = InProcessConnection.frames_received

    def noting(self: InProcessConnection, frames: Iterable[Frame]) -> None:
        kinds.extend(frame.kind for frame in frames)
        real(self, frames)

    monkeypatch.setattr(InProcessConnection, "frames_received", noting)
    return kinds


class Pair:
    """A requester and, on a connection of its own, who answers it."""

    async def open(self) -> "Pair":
        session = await (await client(HERE)).session()
        self._consumer = await session.consumer("queue:requests")
        self._session = session
        self._requester = await (await (await client(HERE)).session()).requester("queue:requests", reply_to="queue:r")
        return self

    async def trip(self, body: bytes) -> bytes:
        asking = asyncio.ensure_future(self._requester.request(body, 30))
        request = await self._consumer.receive(30)
        await self._session.reply(request, request.body)
        return (await asking).body


@in_loop
async def test_a_round_trip_needs_no_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    async with here():
        pair = await Pair().open()
        assert await pair.trip(b"0") == b"0"
        kinds = came(monkeypatch)
        for body in (b"1", b"2", b"3"):
            assert await pair.trip(body) == body
        assert kinds == []


@in_loop
async def test_who_is_traced_speaks_in_frames_as_long_as_that_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    async with here() as local:
        pair = await Pair().open()
        await pair.trip(b"0")
        kinds = came(monkeypatch)
        local.broker.activity.set_level("low", None)
        assert await pair.trip(b"1") == b"1"
        assert {Kind.SEND, Kind.RECEIVE, Kind.ACKNOWLEDGE} <= {*kinds}
        local.broker.activity.set_level("off", None)
        # What was under way as a frame ends as one.
        await pair.trip(b"2")
        kinds.clear()
        assert await pair.trip(b"3") == b"3"
        assert kinds == []


@in_loop
async def test_calls_and_frames_keep_their_order() -> None:
    async with here():
        connection = await client(HERE)
        session = await connection.session()
        producer, consumer = await session.producer("queue:q"), await session.consumer("queue:q")
        bodies = [b"%d" % n if n % 3 else b"%d" % n + bytes(40_000) for n in range(20)]
        for number, body in enumerate(bodies):
            # Without a header it waits for others; with one it leaves by itself; a large one is a frame.
            await (producer.send(body) if number % 2 else producer.send(body, type="t"))
        assert [(await consumer.receive(30)).body for _ in bodies] == bodies


@in_loop
async def test_what_nobody_waits_for_is_seen_to_in_the_same_turn() -> None:
    async with here():
        sending, receiving = await client(HERE), await client(HERE)
        consumer = await (await receiving.session()).consumer("queue:q")
        producer = await (await sending.session()).producer("queue:q")
        waiting = asyncio.ensure_future(consumer.receive(30))
        await asyncio.sleep(0)
        await producer.send(b"x", type="t")
        assert (await waiting).body == b"x"


@in_loop
async def test_a_refused_send_is_told_to_who_sends_next() -> None:
    async with here(message_limit=1, when_full="refuse"):
        producer = await (await (await client(HERE)).session()).producer("queue:q")
        for _ in range(2):
            await producer.send(b"x", type="t")
        await asyncio.sleep(0)
        with pytest.raises(RefusedError, match="queue:q is full"):
            await producer.send(b"x", type="t")


@in_loop
async def test_who_breaks_a_rule_is_let_go(caplog: pytest.LogCaptureFixture) -> None:
    async with here() as local:
        connection = await client(HERE)
        producer = await (await connection.session()).producer("queue:q")
        await producer.send_batch(Payload(b"\xff\xff", 1, SINGLE | COLUMNS))
        with pytest.raises(ClosedError, match="shorter than its list of columns"):
            await connection.status()
        with pytest.raises(ClosedError):
            await producer.send(b"x", type="t")
        assert "shorter than its list" in caplog.text
        assert not local.broker.connections


@in_loop
async def test_a_closed_connection_can_be_called_no_more() -> None:
    async with here():
        connection = await client(HERE)
        session = await connection.session("client")
        await (await session.producer("queue:q")).send(b"x", type="t")
        consumer: aio.Consumer = await session.consumer("queue:q")
        await consumer.receive(30)
        await connection.drop()
        with pytest.raises(ClosedError):
            consumer.acknowledge()
