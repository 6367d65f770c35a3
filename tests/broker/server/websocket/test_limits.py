"""The limits of a connection of WebSocket, each a little below, at and above; and that it is counted like any other."""

import asyncio

import pytest
from wsproto.events import BytesMessage

from broker.server.raw_client import in_loop, local
from broker.server.stomp.stomp_clients import frame
from mqlab.broker import limits
from mqlab.broker.server.startup import running

from .websocket_client import CONNECT, Web

AROUND = [-1, 0, 1]


def of_size(size: int) -> bytes:
    """A message with a frame that asks for a receipt; line ends are between frames."""
    asks = frame("BEGIN", transaction="t", receipt="r")
    return b"\n" * (size - len(asks)) + asks


@pytest.mark.parametrize("pieces", [1, 7])
@pytest.mark.parametrize("more", AROUND)
@in_loop
async def test_a_message_is_bounded(more: int, pieces: int) -> None:
    most = 600_000
    async with running(local(max_message_size=most)) as (_, (address,)):
        web = await Web.connect(address)
        data = of_size(most + more)
        step = -(-len(data) // pieces)
        # Twice: the next message has as much room.
        for _ in range(2 if more <= 0 else 1):
            for at in range(0, len(data), step):
                web.write(data[at : at + step], binary=True, finished=at + step >= len(data))
            if more <= 0:
                assert "RECEIPT" in str(await web.message())
                web.write(frame("ABORT", transaction="t"))
            else:
                assert f"a message of more than {most} bytes" in str(await web.message())
                assert await web.is_closed() == 1009


@pytest.mark.parametrize("more", AROUND)
@in_loop
async def test_before_it_is_let_in_it_has_less_room(more: int) -> None:
    async with running(local()) as (_, (address,)):
        web = await Web.open(address)
        web.write(b"\n" * (limits.WEBSOCKET_BEFORE_HELLO + more - len(CONNECT)) + CONNECT)
        if more <= 0:
            assert (await web.text()).startswith("CONNECTED")
            # From now on it has more.
            web.write(of_size(limits.WEBSOCKET_BEFORE_HELLO + 1))
            assert "RECEIPT" in await web.text()
        else:
            error, code = await web.is_ended()
            assert (str(limits.WEBSOCKET_BEFORE_HELLO) in error, code) == (True, 1009)


@pytest.mark.parametrize("more", AROUND)
@in_loop
async def test_a_message_that_began_before_stays_small(more: int) -> None:
    """However its bytes are cut."""
    async with running(local()) as (_, (address,)):
        web = await Web.open(address)
        web.write(CONNECT, finished=False)
        assert (await web.text()).startswith("CONNECTED")
        web.write(of_size(limits.WEBSOCKET_BEFORE_HELLO + more - len(CONNECT)))
        assert ("RECEIPT" if more <= 0 else "ERROR") in await web.text()


@in_loop
async def test_the_first_frame_is_bounded_as_without_it() -> None:
    """What a frame of STOMP may be says STOMP, whatever fits into a message."""
    async with running(local()) as (_, (address,)):
        for size, answer in ((limits.FRAME_BEFORE_HELLO // 2, "CONNECTED"), (limits.FRAME_BEFORE_HELLO, "ERROR")):
            web = await Web.open(address)
            web.write(frame("CONNECT", long="x" * size))
            assert (await web.text()).startswith(answer)


@in_loop
async def test_the_longest_frame_fits_into_a_message() -> None:
    most = 4 * 1024 * 1024
    async with running(local(max_message_size=most)) as (_, (address,)):
        web = await Web.connect(address)
        body = b"x" * (most - limits.STOMP_HEAD_ROOM)
        whole = frame("SEND", body, destination="/queue/q", receipt="r", h="x" * 8000)
        web.event(BytesMessage(whole))
        assert b"RECEIPT" in await web.message()


@in_loop
async def test_it_must_log_in_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HELLO_SECONDS", 0.2)
    async with running(local()) as (broker, (address,)):
        silent, greeted = await Web.open(address), await Web.connect(address)
        silent.write(b"CONNECT\naccept-version:1.2\n")
        error, code = await silent.is_ended()
        assert ("not logged in within 0.2 seconds" in error, code) == (True, 1000)
        await greeted.done()
        assert len(broker.connections) == 1


@in_loop
async def test_it_is_counted_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CONNECTIONS", 2)
    async with running(local()) as (broker, (address,)):
        webs = [await Web.open(address), await Web.connect(address)]
        assert len(broker.connections) == 2
        reader, writer = await asyncio.open_connection(address.host, address.port)
        assert b"at most 2 connections" in await reader.read()
        writer.close()
        webs[0].abort()
        while len(broker.connections) == 2:
            await asyncio.sleep(0.001)
        webs[0] = await Web.connect(address)
        for web in webs:
            await web.done()


@in_loop
async def test_a_stopping_broker_ends_it() -> None:
    async with running(local()) as (_, (address,)):
        webs = [await Web.open(address), await Web.connect(address)]
    for web in webs:
        assert await web.reader.read() == b""
