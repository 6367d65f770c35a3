import asyncio
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from unittest.mock import Mock

import pytest
import uvloop

pytest.importorskip("proton", reason="python-qpid-proton is not installed")

from collections.abc import AsyncIterator, Awaitable, Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from proton import Link, Message

from drivers.amqp10.fake_broker import OnLink, fake_broker
from mqlab.drivers import DRIVERS, DriverError, ReceiverOptions
from mqlab.drivers.amqp10 import client as amqp10_client
from mqlab.drivers.amqp10.links import ReceivingLink
from mqlab.drivers.amqp10.messages import (
    decode,
    encode_application_properties,
    encode_before_body,
    encode_header,
    encode_message_properties,
)
from mqlab.drivers.common.timeouts import with_timeout

_BODIES = st.binary(max_size=300)
# Proton's own addresses end with a NUL.
_TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=300)


@settings(deadline=None)
@given(_BODIES, st.booleans(), _TEXT, st.integers(-(2**63), 2**63 - 1))
def test_proton_reads_what_is_written_here(body: bytes, persistent: bool, text: str, number: int) -> None:
    sections = (
        encode_header(persistent=persistent)
        + encode_message_properties(text, f"{text}-1")
        + encode_application_properties([("seq", number)])
    )
    message = Message()
    message.decode(encode_before_body(len(body), sections) + body)
    assert isinstance(message.body, bytes | memoryview)
    assert bytes(message.body) == body
    assert message.durable == persistent
    assert (message.reply_to or "", message.correlation_id) == (text, f"{text}-1")
    assert message.properties == {"seq": number}


@settings(deadline=None)
@given(_BODIES, st.integers(0, 300), st.booleans(), st.booleans())
def test_what_proton_writes_is_read_here(body: bytes, count: int, durable: bool, inferred: bool) -> None:
    message = Message(
        body=body, delivery_count=count, durable=durable, inferred=inferred, correlation_id="7-12", subject="a" * 300,
        properties={"x": 1, "y": "z" * 300}, annotations={"x-opt": 5}, ttl=3.0, priority=7,
    )  # fmt: skip
    assert decode(message.encode()) == (body, count > 0)


@pytest.mark.parametrize("data", [b"\x01", b"\x00\x53", b"\x00\x53\x70", b"\x00\x53\x75\xb0\x00", b"\x00\x53\x75\x01"])
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(DriverError, match="a message"):
        decode(data)


def test_a_message_without_a_body_is_an_empty_one() -> None:
    assert decode(encode_header(persistent=True)) == (b"", False)


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def served(serve: Serve) -> AbstractAsyncContextManager[str]:
    @asynccontextmanager
    async def serving() -> AsyncIterator[str]:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            yield "tcp:{}:{}".format(*server.sockets[0].getsockname())

    return serving()


@pytest.mark.parametrize(("says", "match"), [
    (b"HTTP/1.1 400 Bad Request\r\n\r\n", "framing-error: Expected SASL"),
    (b"", "closed the connection|framing"),
])  # fmt: skip
def test_a_peer_that_speaks_something_else(says: bytes, match: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(8)
        writer.write(says)
        writer.close()

    async def played() -> None:
        async with served(serve) as address:
            await DRIVERS["amqp10"](address).connect()

    with pytest.raises(DriverError, match=match):
        uvloop.run(played())


def test_nobody_listens_there() -> None:
    with pytest.raises(DriverError, match=r"127\.0\.0\.1:1"):
        uvloop.run(DRIVERS["amqp10"]("tcp:127.0.0.1:1").connect())


def test_a_flavour_that_is_none_is_refused() -> None:
    with pytest.raises(DriverError, match="'vanilla' is none of artemis, activemq, rabbitmq, qpid"):
        uvloop.run(DRIVERS["amqp10"]("tcp:127.0.0.1:1", {"flavour": "vanilla"}).connect())


def _never(link: Link) -> None:
    """It opens the link, and that is all."""
    # type: ignore: Proton's setters take None too.
    link.source.address = link.remote_source.address  # type: ignore[assignment]
    link.target.address = link.remote_target.address  # type: ignore[assignment]
    link.open()


def _soon_closed(link: Link) -> None:
    _never(link)
    link.close()


def _soon_left(link: Link) -> None:
    _never(link)
    link.detach()


def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amqp10_client, "with_timeout", lambda waiting, _, what: with_timeout(waiting, 0.1, what))


async def _receive(on_link: OnLink) -> None:
    async with fake_broker(on_link) as address:
        connection = await DRIVERS["amqp10"](address).connect()
        try:
            await (await connection.receiver("queue:q", ReceiverOptions(10))).receive()
        finally:
            await connection.close()


async def _send(on_link: OnLink) -> None:
    async with fake_broker(on_link) as address:
        connection = await DRIVERS["amqp10"](address).connect()
        try:
            sender = await connection.sender("queue:q", persistent=False, transacted=False)
            await sender.send(np.zeros((1, 12), dtype=np.uint8), wait=True)
        finally:
            await connection.close()


@pytest.mark.parametrize("on_link", [_soon_closed, _soon_left])
@pytest.mark.parametrize("play", [_receive, _send])
def test_a_link_that_the_broker_ends_without_a_word_is_not_waited_at(
    play: Callable[[OnLink], Awaitable[None]], on_link: OnLink
) -> None:
    with pytest.raises(DriverError, match="the broker closed a link"):
        uvloop.run(asyncio.wait_for(play(on_link), 240))


@pytest.mark.parametrize("play", [_receive, _send])
def test_a_link_that_is_never_opened(
    play: Callable[[OnLink], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    _impatient(monkeypatch)
    with pytest.raises(DriverError, match="did not answer"):
        uvloop.run(asyncio.wait_for(play(lambda _: None), 240))


def test_a_broker_that_gives_no_room_holds_nobody_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    _impatient(monkeypatch)
    with pytest.raises(DriverError, match="did not answer"):
        uvloop.run(asyncio.wait_for(_send(_never), 240))


@pytest.mark.parametrize(("prefetch", "settled", "granted"), [
    (8, [1, 2, 1, 3, 5], [4, 8]), (1, [1, 1], [1, 1]), (3, [1, 1, 1], [2]),
])  # fmt: skip
def test_credit_comes_back_for_half_of_the_prefetch_at_a_time(
    prefetch: int, settled: list[int], granted: list[int]
) -> None:
    """A flow for each message would cost either side as much as the message."""
    link = Mock()
    receiving = ReceivingLink(Mock(), link, prefetch)
    for count in settled:
        receiving.settle([Mock()] * count)
    assert [call.args for call in link.flow.call_args_list] == [(number,) for number in granted]


def test_tasks_run_between_two_full_reads() -> None:
    """What a read brought is received before the next read, however much waits in the socket."""

    async def played() -> list[str]:
        client = amqp10_client.Amqp10Client("container", "host")
        transport = Mock(spec=asyncio.Transport)
        transport.is_closing.return_value = False
        happened: list[str] = []
        transport.pause_reading.side_effect = lambda: happened.append("pause")
        transport.resume_reading.side_effect = lambda: happened.append("resume")
        client.connection_made(transport)

        async def receive() -> None:
            await client._next_event()
            happened.append("received")

        receiving = asyncio.ensure_future(receive())
        await asyncio.sleep(0)
        client.data_received(bytes(amqp10_client._FULL_READ_BYTES))
        await receiving
        await asyncio.sleep(0)
        client.data_received(b"little")
        client.abort()
        return happened

    assert uvloop.run(asyncio.wait_for(played(), 240)) == ["pause", "received", "resume"]
