"""The limits of the native protocol, each a little below, at and above."""

import asyncio

import pytest

from mqlab.broker import limits
from mqlab.broker.server.startup import running
from mqlab.wire.native import frames as native
from mqlab.wire.native.bodies import encode
from mqlab.wire.native.frames import Flag, Kind

from .raw_client import Raw, in_loop, local

CLIENTS_KINDS = {
    Kind.HELLO, Kind.CLOSE, Kind.OPEN_SESSION, Kind.OPEN_PRODUCER, Kind.OPEN_CONSUMER, Kind.SEND, Kind.ACKNOWLEDGE,
    Kind.COMMIT, Kind.ROLLBACK, Kind.ASK, Kind.ACKNOWLEDGE_ROWS, Kind.RECEIVE, Kind.CANCEL,
}  # fmt: skip


BATCH = bytes(encode([b"one", b"two"]).data)


@pytest.mark.parametrize("more", [-1, 0, 1])
@in_loop
async def test_a_stranger_has_room_for_a_greeting_and_no_more(more: int) -> None:
    async with running(local()) as (_, (address,)):
        raw = await Raw.connect(address, greet=False)
        size = limits.FRAME_BEFORE_HELLO + more
        said = b'{"version": 1, "x": "%s"}' % (b"." * (size - 23))
        assert len(said) == size
        raw.write(native.header(Kind.HELLO, length=size) + said)
        if more <= 0:
            assert (await raw.read()).kind == Kind.HELLO
        else:
            assert str(limits.FRAME_BEFORE_HELLO) in await raw.is_ended()


@pytest.mark.parametrize("more", [-1, 0, 1])
@in_loop
async def test_a_frame_is_bounded(more: int) -> None:
    most = 600_000
    async with running(local(max_message_size=most)) as (broker, (address,)):
        raw = await Raw.connect(address)
        await raw.open_session()
        await raw.open_producer("queue:q")
        raw.send(b"x" * (most + more), flags=Flag.CONFIRM)
        if more <= 0:
            await raw.read_until(Kind.CONFIRM)
            assert broker.core.destinations.queues["q"].size == most + more
        else:
            assert str(most) in await raw.is_ended()
            assert broker.core.destinations.queues["q"].size == 0


@in_loop
async def test_the_real_limit_of_a_frame_holds_a_real_frame() -> None:
    async with running(local()) as (broker, (address,)):
        raw = await Raw.connect(address)
        await raw.open_session()
        await raw.open_producer("queue:q")
        raw.send(b"x" * limits.FRAME, flags=Flag.CONFIRM)
        await raw.read_until(Kind.CONFIRM)
        assert broker.core.destinations.queues["q"].size == limits.FRAME


@in_loop
async def test_a_silent_connection_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HELLO_SECONDS", 0.05)
    async with running(local()) as (_, (address,)):
        silent, greeted = await Raw.connect(address, greet=False), await Raw.connect(address)
        slow = await Raw.connect(address, greet=False)
        slow.write(native.frame(Kind.HELLO, {"version": 1})[:10])
        assert "not logged in" in await silent.is_ended()
        assert "not logged in" in await slow.is_ended()
        await greeted.open_session()


@in_loop
async def test_a_producer_that_ignores_its_credit_is_ended() -> None:
    async with running(local(queue_limit=1_000, producer_window=10_000)) as (broker, (address,)):
        raw = await Raw.connect(address)
        await raw.open_session()
        await raw.open_producer("queue:q")
        for n in range(30):
            raw.send(b"x" * 1_000, first=n + 1)
        assert "credit" in await raw.is_ended()
        assert broker.core.destinations.queues["q"].size <= 11_000


@pytest.mark.parametrize("more", [-1, 0, 1])
@in_loop
async def test_connections_are_bounded(more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CONNECTIONS", 3)
    async with running(local()) as (broker, (address,)):
        served = [await Raw.connect(address) for _ in range(min(3, 3 + more))]
        if more == 1:
            assert "3 connections" in await (await Raw.connect(address, greet=False)).is_ended()
            await served.pop().close()
            while len(broker.connections) == 3:
                await asyncio.sleep(0.001)
            served.append(await Raw.connect(address))
        for raw in served:
            await raw.open_session()


@in_loop
async def test_sessions_and_links_of_a_connection_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SESSIONS_A_CONNECTION", 2)
    monkeypatch.setattr(limits, "LINKS_A_CONNECTION", 3)
    async with running(local()) as (_, (address,)):
        raw = await Raw.connect(address)
        await raw.open_session(1)
        await raw.open_session(2)
        raw.write(native.frame(Kind.OPEN_SESSION, {}, session=3))
        assert (await raw.read_until(Kind.ERROR)).session == 3
        await raw.open_producer("queue:q", link=1)
        await raw.open_consumer("queue:q", link=2)
        await raw.open_producer("queue:q", link=3, session=2)
        raw.write(native.frame(Kind.OPEN_CONSUMER, {"destination": "queue:q"}, session=2, link=4))
        assert (await raw.read_until(Kind.ERROR)).link == 4
        # What is closed makes room; the connection was not ended by any of this.
        raw.write(native.header(Kind.CLOSE, session=1, link=1))
        assert (await raw.read_until(Kind.CLOSED)).link == 1
        await raw.open_consumer("queue:q", link=4, session=2)


@pytest.mark.parametrize("more", [-1, 0, 1])
@in_loop
async def test_the_room_of_a_consumer_is_bounded(more: int) -> None:
    async with running(local()) as (_, (address,)):
        raw = await Raw.connect(address)
        await raw.open_session()
        about = {"destination": "queue:q"}
        raw.write(native.frame(Kind.OPEN_CONSUMER, about, session=1, link=1, amount=limits.PREFETCH + more))
        answer = await raw.read()
        assert answer.kind == (Kind.OPENED if more <= 0 else Kind.ERROR)
