"""What the broker says to those who break the rules of the native protocol: no, and good-bye."""

import asyncio
import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from mqlab.broker import limits
from mqlab.broker.server.startup import running
from mqlab.client import aio
from mqlab.wire.address import Address
from mqlab.wire.native import frames as native
from mqlab.wire.native.bodies import encode
from mqlab.wire.native.columns import encode_single
from mqlab.wire.native.frames import Flag, Kind

from .raw_client import Raw, client, in_loop, local, seen

CLIENTS_KINDS = {
    Kind.HELLO, Kind.CLOSE, Kind.OPEN_SESSION, Kind.OPEN_PRODUCER, Kind.OPEN_CONSUMER, Kind.SEND, Kind.ACKNOWLEDGE,
    Kind.COMMIT, Kind.ROLLBACK, Kind.ASK, Kind.ACKNOWLEDGE_ROWS, Kind.RECEIVE, Kind.CANCEL,
    Kind.REQUEST,
}  # fmt: skip


class Neighbour:
    """An honest client of the same broker, who must notice nothing of what others do."""

    def __init__(self, producer: aio.Producer, consumer: aio.Consumer) -> None:
        self._producer = producer
        self._consumer = consumer
        self._number = 0

    @classmethod
    async def at(cls, address: Address) -> "Neighbour":
        session = await (await client(address)).session()
        return cls(await session.producer("queue:neighbour"), await session.consumer("queue:neighbour"))

    async def is_fine(self) -> bool:
        self._number += 1
        await self._producer.send(b"%d" % self._number)
        message = await asyncio.wait_for(self._consumer.receive(), 240)
        return seen(message) == (b"%d" % self._number, False)


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind != Kind.HELLO])
@in_loop
async def test_anything_before_hello_is_refused(kind: Kind) -> None:
    async with running(local()) as (broker, (address,)):
        raw = await Raw.connect(address, greet=False)
        raw.write(native.frame(kind, {"destination": "queue:q", "version": 1}, session=1, link=1, amount=1))
        raw.write(native.frame(Kind.HELLO, {"version": native.VERSION}))
        assert "HELLO" in await raw.is_ended()
        assert broker.core.destinations.queues == {}
        assert broker.connections == set()


@pytest.mark.parametrize("said", [{}, {"version": 0}, {"version": 2}, {"version": "1"}, {"version": None}])
@in_loop
async def test_another_version_is_refused(said: dict[str, object]) -> None:
    async with running(local()) as (_, (address,)):
        raw = await Raw.connect(address, greet=False)
        raw.write(native.frame(Kind.HELLO, said))
        assert "version" in await raw.is_ended()


@pytest.mark.parametrize("payload", [b"", b"no JSON", b"[]", b"[" * 4000, b"\xff"])
@in_loop
async def test_a_greeting_that_is_none_is_refused(payload: bytes) -> None:
    async with running(local()) as (_, (address,)):
        raw = await Raw.connect(address, greet=False)
        raw.write(native.header(Kind.HELLO, length=len(payload)) + payload)
        assert "JSON" in await raw.is_ended()


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind not in CLIENTS_KINDS] + [Kind.HELLO])
@in_loop
async def test_what_only_a_broker_may_say_now_is_refused(kind: Kind) -> None:
    async with running(local()) as (_, (address,)):
        raw = await Raw.connect(address)
        raw.write(native.frame(kind, {"version": 1}))
        assert str(int(kind)) in await raw.is_ended()


@in_loop
async def test_an_unknown_kind_is_refused() -> None:
    async with running(local()) as (_, (address,)):
        raw = await Raw.connect(address)
        raw.write(native.header(99))
        assert "99" in await raw.is_ended()


def _send(payload: bytes, rows: int, *, flags: int = 0, first: int = 1) -> bytes:
    length = len(payload)
    return native.header(Kind.SEND, flags=flags, session=1, link=1, first=first, amount=rows, length=length) + payload


def _request(number: int, *, first: int = 1, consumer: int = 2, link: int = 1, named: str = "correlation_id") -> bytes:
    message = encode_single(b"question %d" % number, (named,), "s", [f"id {number}"])
    size = len(message.data)
    head = native.header(Kind.REQUEST, flags=message.form, link=link, first=first, amount=consumer, length=size)
    return head + bytes(message.data)


def _receive_and_send(number: int, *, first: int) -> bytes:
    """What `_request` says, in the two frames that it stands for."""
    message, key = encode_single(b"question %d" % number, ("correlation_id",), "s", [f"id {number}"]), b"id %d" % number
    receive = native.header(Kind.RECEIVE, link=2, first=number - 1, length=len(key)) + key
    size = len(message.data)
    return (
        receive
        + native.header(Kind.SEND, flags=message.form, link=1, first=first, amount=1, length=size)
        + bytes(message.data)
    )


BATCH = bytes(encode([b"one", b"two"]).data)


@pytest.mark.parametrize(
    "frame",
    [
        _send(b"no batch", 2),
        _send(b"", 1),
        _send(BATCH, 3),
        _send(BATCH, 0),
        _send(BATCH[:-10], 2),
        _send(b"single", 2, flags=Flag.SINGLE),
        _send(b"single", 0, flags=Flag.SINGLE),
        _send(BATCH.replace(struct.pack("<qq", 0, 12), struct.pack("<qq", 0, 13)), 2),
        _send(BATCH, 2, first=2**64 - 1, flags=Flag.CONFIRM),
        native.header(Kind.SEND, session=1, link=7, amount=1),
        _request(1, consumer=9),
        _request(1, link=9),
        _request(1, named="type"),
        native.header(Kind.REQUEST, flags=Flag.SINGLE, link=1, first=1, amount=2, length=4) + b"single",
        native.header(Kind.REQUEST, link=1, first=1, amount=2, length=len(BATCH)) + BATCH,
        native.header(Kind.REQUEST, flags=Flag.SINGLE | Flag.COLUMNS, link=1, first=1, amount=2, length=4) + b"none",
        native.header(Kind.ACKNOWLEDGE, link=9, first=1),
        native.header(Kind.COMMIT, session=9),
        native.header(Kind.ROLLBACK, session=9),
        native.header(Kind.CLOSE, link=9),
        native.header(Kind.CLOSE, session=9),
        native.header(Kind.CLOSE),
        native.frame(Kind.OPEN_SESSION, {}, session=1),
        native.frame(Kind.OPEN_SESSION, {}, session=0),
        native.frame(Kind.OPEN_PRODUCER, {"destination": "queue:q"}, session=1, link=1),
        native.frame(Kind.OPEN_PRODUCER, {"destination": "queue:q"}, session=1, link=0),
        native.frame(Kind.OPEN_PRODUCER, {"destination": "queue:q"}, session=9, link=5),
        native.frame(Kind.OPEN_PRODUCER, {"destination": 7}, session=1, link=5),
        native.frame(Kind.OPEN_CONSUMER, {}, session=1, link=5),
        native.header(Kind.OPEN_CONSUMER, session=1, link=5, length=3000) + b"[" * 3000,
        native.header(Kind.SEND, length=2**32 - 1),
    ],
)
@in_loop
async def test_one_who_breaks_the_rules_is_ended_and_no_neighbour_notices(frame: bytes) -> None:
    async with running(local()) as (broker, (address,)):
        neighbour = await Neighbour.at(address)
        raw = await Raw.connect(address)
        await raw.open_session()
        await raw.open_producer("queue:q")
        await raw.open_consumer("queue:other", room=0)
        raw.write(frame)
        assert await raw.is_ended()
        assert await neighbour.is_fine()
        assert len(broker.connections) == 1
        assert broker.core.destinations.queues["q"].messages == 0


@in_loop
async def test_noise_from_many_disturbs_no_neighbour(monkeypatch: pytest.MonkeyPatch) -> None:
    """Honest frames with random bytes changed: whatever they do, they do it to themselves."""
    monkeypatch.setattr(limits, "FRAME", 5_000)
    chance = random.Random(7)
    honest = [
        native.frame(Kind.OPEN_SESSION, {"transacted": True}, session=2),
        native.frame(Kind.OPEN_PRODUCER, {"destination": "queue:noise"}, session=2, link=3),
        native.frame(Kind.OPEN_CONSUMER, {"destination": "topic:noise"}, session=2, link=4, amount=5),
        _send(BATCH, 2), _send(b"single", 1, flags=Flag.SINGLE | Flag.CONFIRM),
        native.header(Kind.ACKNOWLEDGE, link=4, first=1, amount=1),
        native.header(Kind.ACKNOWLEDGE_ROWS, link=4, first=1, amount=1), native.header(Kind.CANCEL, link=4),
        native.header(Kind.RECEIVE, link=4, length=2) + b"id", native.frame(Kind.ASK, {"ask": "temporary"}, first=1),
        native.header(Kind.COMMIT, session=2), native.header(Kind.ROLLBACK, session=2),
        native.frame(Kind.ASK, {"ask": "status"}, first=1), _request(1, consumer=4),
        native.header(Kind.CLOSE, link=3), native.header(Kind.CLOSE, session=2),
    ]  # fmt: skip
    async with running(local(queue_limit=10_000, producer_window=5_000)) as (broker, (address,)):
        neighbour = await Neighbour.at(address)
        for _ in range(150):
            raw = await Raw.connect(address)
            await raw.open_session()
            await raw.open_producer("queue:noise")
            for frame in chance.choices(honest, k=6):
                data = bytearray(frame)
                for _ in range(chance.choice((0, 0, 1, 3))):
                    data[chance.randrange(len(data))] = chance.randrange(256)
                raw.write(bytes(data))
            raw.writer.write_eof()
            assert await neighbour.is_fine()
            await raw.close()
        assert not broker.failure.done()


@pytest.mark.parametrize("ask", [_request, _receive_and_send])
@in_loop
async def test_a_request_is_a_send_and_a_receive_of_its_reply_in_one(ask: Callable[..., bytes]) -> None:
    async with running(local()) as (broker, (address,)):
        serving = await (await client(address)).session()
        requests = await serving.consumer("queue:requests")
        raw = await Raw.connect(address)
        await raw.open_session()
        await raw.open_producer("queue:requests")
        await raw.open_consumer("queue:replies", room=0)
        replies, replying = broker.core.destinations.queues["replies"], await serving.producer("queue:replies")
        for number in range(1, 4):
            # One of them is there before it is asked for.
            ready = number == 2
            if ready:
                await replying.send(b"reply 2", correlation_id="id 2")
                await replying.flush()
            await replying.send(b"noise", correlation_id="somebody else's")
            raw.write(ask(number, first=number))
            request = await requests.receive(timeout=240)
            assert (request.body, request.correlation_id) == (b"question %d" % number, f"id {number}")
            if not ready:
                await replying.send(b"reply %d" % number, correlation_id=f"id {number}")
            reply = await raw.read_until(Kind.DELIVER)
            assert (reply.link, reply.first, reply.amount) == (2, number, 1)
            assert bytes(reply.payload).endswith(b"reply %d" % number)
            # What was given before is done: there is the noise, and this one.
            assert replies.messages == number + 1


@in_loop
async def test_a_request_that_is_refused_is_told_by_its_number() -> None:
    async with running(local(message_limit=1, when_full="refuse")) as (_, (address,)):
        raw = await Raw.connect(address)
        await raw.open_session()
        await raw.open_producer("queue:requests")
        await raw.open_consumer("queue:replies", room=0)
        raw.write(_request(1, first=1) + _request(2, first=2))
        error = await raw.read_until(Kind.ERROR)
        assert (error.link, error.first, error.amount) == (1, 2, 1)


@in_loop
async def test_frames_may_come_in_any_pieces() -> None:
    async with running(local()) as (_, (address,)):
        raw = await Raw.connect(address)
        await raw.open_session()
        await raw.open_producer("queue:q")
        await raw.open_consumer("queue:q")
        frames = _send(BATCH, 2) + _send(b"three", 1, flags=Flag.SINGLE, first=3)
        for begin in range(0, len(frames), 7):
            raw.write(frames[begin : begin + 7])
            await asyncio.sleep(0)
        assert (await raw.read_until(Kind.DELIVER)).amount == 2
        last = await raw.read_until(Kind.DELIVER)
        assert (last.amount, last.first, bytes(last.payload)) == (1, 3, b"three")


@in_loop
async def test_what_strangers_say_cannot_forge_a_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with running(local()) as (_, (address,)):
        raw = await Raw.connect(address, greet=False)
        raw.write(native.frame(Kind.HELLO, {"version": "1\n2024-01-01 INFO everything is fine\x1b[2K"}))
        await raw.is_ended()
    assert caplog.messages
    assert all(message.isprintable() for message in caplog.messages)


@in_loop
async def test_status_says_what_there_is(tmp_path: Path) -> None:
    async with running(local(data=tmp_path)) as (_, (address,)):
        raw = await Raw.connect(address)
        await raw.open_session()
        await raw.open_producer("queue:q")
        raw.send(b"one", b"two", flags=Flag.PERSISTENT | Flag.CONFIRM)
        await raw.read_until(Kind.CONFIRM)
        raw.write(native.frame(Kind.ASK, {"ask": "status"}, first=1))
        counters = (await raw.read_until(Kind.ANSWER)).json()
        assert (counters["messages"], counters["connections"], counters["held_producers"]) == (2, 1, 0)
        assert counters["bytes"] == len(encode([b"one", b"two"]).data)
        assert counters["syncs"] == 1
        assert counters["journal_bytes"] > counters["bytes"]
