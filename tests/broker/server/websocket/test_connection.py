"""Messages of WebSocket and frames of STOMP: how they become one another, and how a connection ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, Ping, Pong, Request

from broker.server.raw_client import client, in_loop, local
from broker.server.stomp.stomp_clients import frame
from broker.server.stomp.test_fuzz import Socket
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.startup import running
from mqlab.broker.server.websocket import connection
from mqlab.broker.server.websocket.transport import WebSocketTransport, split_frames
from mqlab.broker.settings import Settings
from mqlab.wire.address import Address

from .websocket_client import CONNECT, Web

SUBSCRIBE = frame("SUBSCRIBE", id="1", destination="/queue/q", ack="client", receipt="r")


@asynccontextmanager
async def served() -> AsyncIterator[tuple[Broker, Address, Web]]:
    """A client that is let in."""
    async with running(local()) as (broker, (address,)):
        web = await Web.connect(address)
        yield broker, address, web


@in_loop
async def test_on_a_unix_socket_too(tmp_path: Path) -> None:
    async with running(Settings(listen=(f"unix:{tmp_path / 'socket'}",))) as (_, (address,)):
        web = await Web.connect(address)
        await web.done()


@in_loop
async def test_a_subprotocol_is_agreed_on() -> None:
    async with running(local()) as (_, (address,)):
        web = await Web.open(address, ("v10.stomp", "v11.stomp"))
        assert web.subprotocol == "v11.stomp"
        web.write(CONNECT)
        assert "version:1.2\n" in await web.text()


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("binary", [True, False])
@in_loop
async def test_a_frame_may_be_cut_anywhere(binary: bool, finished: bool) -> None:
    """By the end of a message, or by that of a frame of WebSocket, after which others may come between."""
    async with running(local()) as (_, (address,)):
        for cut in range(0, 200, 7):
            web, queue = await Web.open(address), f"/queue/{cut}"
            whole = CONNECT + b"\n" + frame("SUBSCRIBE", id="1", destination=queue)
            whole += frame("SEND", "grün\0".encode() * 3, destination=queue)
            text = whole.decode()
            parts = (whole[:cut], whole[cut:]) if binary else (text[:cut].encode(), text[cut:].encode())
            web.write(parts[0], binary=binary, finished=finished)
            web.event(Ping(b"between"))
            web.write(parts[1], binary=binary)
            connected, message = await web.message(), await web.message()
            assert isinstance(connected, bytes) is isinstance(message, bytes) is binary
            body = message if isinstance(message, bytes) else message.encode()
            assert body.endswith(b"\n\n" + "grün\0".encode() * 3 + b"\0")


@in_loop
async def test_a_message_may_hold_many_frames_and_each_answer_is_one() -> None:
    async with served() as (_, _, web):
        sent = b"".join(frame("SEND", b"%d" % n, destination="/queue/q") for n in range(50))
        web.write(b"\n" + SUBSCRIBE + sent + b"\n")
        assert "RECEIPT" in await web.text()
        heard = [await web.text() for _ in range(50)]
        assert [one.partition("\n\n")[2] for one in heard] == [f"{n}\0" for n in range(50)]
        assert all(one.startswith("MESSAGE\n") for one in heard)


@in_loop
async def test_text_is_answered_with_text_if_it_is_any() -> None:
    async with served() as (_, address, web):
        native = await client(address)
        producer = await (await native.session()).producer("queue:q")
        web.write(SUBSCRIBE)
        assert isinstance(await web.message(), str)
        for body in (b"plain", b"\xff\0\xfe", "grün".encode()):
            await producer.send(body)
            message = await web.message()
            assert isinstance(message, bytes) is (body[:1] == b"\xff")
            assert (message if isinstance(message, bytes) else message.encode()).endswith(b"\n\n" + body + b"\0")
        web.write(b"\n", binary=True)
        await producer.send(b"plain")
        assert isinstance(await web.message(), bytes)


@in_loop
async def test_a_heart_beat_is_a_message_of_its_own() -> None:
    async with running(local()) as (_, (address,)):
        web = await Web.open(address)
        web.write(frame("CONNECT", **{"accept-version": "1.2", "heart-beat": "0,100"}))
        assert "heart-beat:100,0" in await web.text()
        assert [await web.text() for _ in range(3)] == ["\n"] * 3


@in_loop
async def test_a_ping_is_answered() -> None:
    async with served() as (_, _, web):
        for payload in (b"", b"\0" * 125):
            web.event(Ping(payload))
            assert await web.next() == Pong(payload)
        web.event(Pong(b"unasked"))
        await web.done()


@in_loop
async def test_who_leaves_is_told_goodbye() -> None:
    async with served() as (broker, _, web):
        web.say_frame("SEND", b"x", destination="/queue/q")
        web.say_frame("DISCONNECT", receipt="bye")
        assert "receipt-id:bye" in await web.text()
        assert await web.is_closed() == 1000
        assert broker.core.destinations.queues["q"].messages == 1
        assert not broker.connections


@pytest.mark.parametrize(("code", "answered"), [(1000, 1000), (1001, 1001), (4000, 4000)])
@in_loop
async def test_who_closes_is_answered(code: int, answered: int) -> None:
    async with served() as (broker, _, web):
        web.say_frame("SEND", b"x", destination="/queue/q")
        web.event(CloseConnection(code, "so long"))
        assert await web.is_closed() == answered
        assert broker.core.destinations.queues["q"].messages == 1
        while broker.connections:
            await asyncio.sleep(0.001)


@in_loop
async def test_a_close_without_a_reason_is_answered_without_one() -> None:
    async with served() as (_, _, web):
        web.writer.write(b"\x88\x80\0\0\0\0")
        assert await web.reader.read() == b"\x88\0"


@pytest.mark.parametrize("how", ["close", "abort", "end", "broken"])
@in_loop
async def test_what_a_lost_client_had_comes_again(how: str) -> None:
    async with served() as (_, address, web):
        web.write(SUBSCRIBE + frame("SEND", b"x", destination="/queue/q"))
        assert [one.split("\n")[0] for one in (await web.text(), await web.text())] == ["RECEIPT", "MESSAGE"]
        consumer = await (await (await client(address)).session()).consumer("queue:q")
        if how == "close":
            web.event(CloseConnection(1000))
        elif how == "abort":
            web.abort()
        elif how == "end":
            await web.close()
        else:
            web.writer.write(b"\xff\xff\xff")
        message = await consumer.receive()
        assert (message.body, message.redelivered) == (b"x", True)


@in_loop
async def test_an_error_of_stomp_is_said_before_the_end() -> None:
    async with served() as (broker, _, web):
        web.say_frame("SEND", b"x", destination="nowhere", receipt="r")
        # What it still says is not listened to, and does not take the last words back.
        for _ in range(100):
            web.write(b"\n" * 1000)
        error, code = await web.is_ended()
        assert "'nowhere' is not a destination" in error
        assert code == 1000
        assert not broker.connections


@pytest.mark.parametrize(
    ("said", "code", "words"),
    [
        (b"\x81\x01x", 1002, "unmasked"),
        (b"\xc1\x81\0\0\0\0x", 1002, "Reserved bit"),
        (b"\x83\x81\0\0\0\0x", 1002, "opcode"),
        (b"\x80\x81\0\0\0\0x", 1002, "CONTINUATION"),
        (b"\x01\x81\0\0\0\0\n\x81\x81\0\0\0\0\n", 1002, "CONTINUATION"),
        (b"\x09\x80\0\0\0\0", 1002, "control frame"),
        (b"\x89\xfe\0\x80\0\0\0\0", 1002, "125"),
        (b"\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0", 1002, "length"),
        (b"\x88\x82\0\0\0\0\0\1", 1002, "invalid code"),
        (b"\x81\x82\0\0\0\0\xc3\x28", 1007, "utf-8"),
        (b"SEND\ndestination:/queue/q\n\nx\0", 1002, ""),
    ],
)
@in_loop
async def test_what_is_not_websocket_is_said_and_ends_the_connection(said: bytes, code: int, words: str) -> None:
    async with served() as (broker, _, web):
        web.say_frame("SEND", b"before", destination="/queue/q")
        web.writer.write(said)
        error, told = await web.is_ended()
        assert told == code
        assert words in error
        # What was said before is done.
        assert broker.core.destinations.queues["q"].messages == 1
        assert not broker.connections


@pytest.mark.parametrize("said", [b"SEND\ndestination:/queue/q\n\nx\0", b"\0", b"CONNECT\naccept-version:9\n\n\0"])
@in_loop
async def test_nothing_but_connect_is_the_first_frame(said: bytes) -> None:
    async with running(local()) as (broker, (address,)):
        web = await Web.open(address)
        web.write(said)
        error, _ = await web.is_ended()
        assert "CONNECT" in error or "version" in error
        assert not broker.core.destinations.queues


@in_loop
async def test_a_full_queue_makes_it_wait_and_an_end_waits_too() -> None:
    """All that it said before it closed is done, in order."""
    async with running(local(queue_limit=10_000, producer_window=10_000)) as (broker, (address,)):
        web = await Web.connect(address)
        for n in range(100):
            web.say_frame("SEND", b"%04d" % n + bytes(1000), destination="/queue/full")
        web.event(CloseConnection(1000))
        while not broker.core.flow.held:
            await asyncio.sleep(0.01)
        consumer = await (await (await client(address)).session()).consumer("queue:full")
        assert [(await consumer.receive()).body[:4] for _ in range(100)] == [b"%04d" % n for n in range(100)]
        assert await web.is_closed() == 1000


@in_loop
async def test_many_small_pieces_let_others_be_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_MOST_EVENTS", 10)
    async with served() as (_, _, web):
        data = SUBSCRIBE + frame("SEND", b"in pieces", destination="/queue/q")
        for at in range(len(data)):
            web.write(data[at : at + 1], finished=at + 1 == len(data))
        assert "RECEIPT" in await web.text()
        assert "in pieces" in await web.text()


@in_loop
async def test_of_pings_to_which_no_answer_can_leave_the_last_counts() -> None:
    """So that a client that does not read costs no memory."""
    socket = Socket()
    outlet = WebSocketTransport(socket, lambda: b"", lambda: None)
    server, peer = WSConnection(ConnectionType.SERVER), WSConnection(ConnectionType.CLIENT)
    server.receive_data(peer.send(Request("x", "/")))
    assert len([*server.events()]) == 1
    outlet.handshake_done(server, server.send(AcceptConnection()))
    peer.receive_data(socket.written)
    before = len(socket.written)
    outlet.set_write_paused(True)
    for number in range(1000):
        outlet.pong(Ping(b"%d" % number))
    assert len(socket.written) == before
    outlet.set_write_paused(False)
    outlet.set_write_paused(False)
    peer.receive_data(socket.written[before:])
    assert [event for event in peer.events() if isinstance(event, Pong)] == [Pong(b"999")]


FRAMES = st.sampled_from([
    b"\n", b"RECEIPT\nreceipt-id:1\n\n\0", b"MESSAGE\na:b\ncontent-length:0\n\n\0", b"CONNECTED\nversion:1.2\n\n\0",
    b"MESSAGE\na:b\ncontent-length:7\n\n\0\n\na\0\n\n\0", b"ERROR\nmessage:x\ncontent-length:3\nb:c\n\nabc\0",
    b"MESSAGE\nx-content-length:9\ncontent-length:2\n\n\n\n\0",
])  # fmt: skip


@given(st.lists(FRAMES.filter(lambda one: one != b"\n")))
def test_what_is_written_together_is_cut_into_frames(frames: list[bytes]) -> None:
    assert [*split_frames(b"".join(frames))] == frames


def test_a_heart_beat_is_left_as_it_is() -> None:
    assert [*split_frames(b"\n")] == [b"\n"]
