"""Single messages of one who sends on and on: they go as batches, and nobody can tell but by the time it takes."""

from collections.abc import Sequence

import pytest

from broker.server.raw_client import Raw, client, in_loop, local
from mqlab.broker.core.model.sessions import CoreProducer
from mqlab.broker.server.startup import running
from mqlab.client.headers import MessageEncoder, ProducerDefaults
from mqlab.wire.address import Address
from mqlab.wire.native import frames as native
from mqlab.wire.native.bodies import Buffer, Payload, decode, encode
from mqlab.wire.native.columns import column
from mqlab.wire.native.frames import FORM, Flag, Frame, Kind

MANY = 500
BODIES = [b"%04d" % number for number in range(MANY)]


def sends(payloads: Sequence[Payload], *, first: int = 1, link: int = 1, flags: int = 0) -> bytes:
    """Frames of single messages, one after the other."""
    parts: list[Buffer] = []
    for number, (data, rows, form) in enumerate(payloads, first):
        about = {"session": 1, "link": link, "first": number, "amount": rows, "length": len(data)}
        parts += (native.header(Kind.SEND, flags=flags | form, **about), data)
    return b"".join(parts)


def single(bodies: Sequence[bytes]) -> list[Payload]:
    return [encode([body]) for body in bodies]


async def talker(address: Address, destination: str) -> Raw:
    """Producer 1 and, with room for all, consumer 2 of a destination."""
    raw = await Raw.connect(address)
    await raw.open_session()
    await raw.open_producer(destination)
    await raw.open_consumer(destination, room=10_000)
    return raw


async def delivered(raw: Raw, rows: int) -> list[Frame]:
    """The next deliveries, until so many messages have come."""
    found: list[Frame] = []
    while sum(frame.amount for frame in found) < rows:
        found.append(await raw.read_until(Kind.DELIVER))
    return found


def payload_in(frame: Frame) -> Payload:
    return Payload(frame.payload, frame.amount, frame.flags & FORM)


def bodies_in(frames: Sequence[Frame]) -> list[bytes]:
    return [body for frame in frames for body in decode(payload_in(frame)).tolist()]


@pytest.mark.parametrize("destination", ["queue:q", "topic:t"])
@in_loop
async def test_they_arrive_in_order_and_together(destination: str) -> None:
    async with running(local()) as (broker, (address,)):
        raw = await talker(address, destination)
        raw.write(sends(single(BODIES)))
        frames = await delivered(raw, MANY)
        assert bodies_in(frames) == BODIES
        assert len(frames) < MANY / 10
        assert frames[0].first == 1
        (queue,) = {consumer.queue for session in broker.core.sessions for consumer in session.consumers}
        assert (queue.counters.put, queue.messages) == (MANY, MANY)


@in_loop
async def test_headers_and_sizes_stay_those_of_each() -> None:
    stamp = MessageEncoder(ProducerDefaults(ids=False, timestamps=False))
    sent = [stamp.message(b"x" * at, {"correlation_id": f"c{at}"}, {"number": at}) for at in range(MANY)]
    async with running(local()) as (_, (address,)):
        raw = await talker(address, "queue:q")
        raw.write(sends(sent))
        frames = await delivered(raw, MANY)
        assert bodies_in(frames) == [b"x" * at for at in range(MANY)]
        for name, wanted in (("correlation_id", [f"c{at}" for at in range(MANY)]), (".number", [*range(MANY)])):
            columns = [column(payload_in(frame), name) for frame in frames]
            assert [value for one in columns if one is not None for value in one.to_pylist()] == wanted


@in_loop
async def test_what_stands_between_them_is_done_in_its_turn() -> None:
    async with running(local()) as (_, (address,)):
        raw = await talker(address, "queue:q")
        await raw.open_producer("queue:q", link=3)
        some, others = BODIES[:100], BODIES[100:200]
        told = native.frame(Kind.ASK, {"ask": "status"}, first=1)
        raw.write(sends(single(some)) + told + sends(single(others), link=3) + sends(single(some), first=101))
        heard = [await raw.read()]
        while sum(frame.amount for frame in heard if frame.kind == Kind.DELIVER) < 300:
            heard.append(await raw.read())
        before = [frame.kind for frame in heard].index(Kind.ANSWER)
        assert sum(frame.amount for frame in heard[:before]) == 0
        assert heard[before].json()["messages"] == 100


@in_loop
async def test_one_confirmation_is_for_all_before_it() -> None:
    async with running(local()) as (_, (address,)):
        raw = await talker(address, "queue:q")
        raw.write(sends(single(BODIES), flags=Flag.CONFIRM))
        confirmed = 0
        while confirmed < MANY:
            confirmed = (await raw.read_until(Kind.CONFIRM)).first


@in_loop
async def test_those_who_wait_are_all_told_of_a_refusal() -> None:
    async with running(local()) as (_, (address,)):
        raw = await talker(address, "queue:q")
        raw.write(sends(single(BODIES), flags=Flag.PERSISTENT | Flag.CONFIRM))
        errors = [await raw.read_until(Kind.ERROR) for _ in BODIES]
        assert [(frame.first, frame.amount) for frame in errors] == [(at, 1) for at in range(1, MANY + 1)]


@in_loop
async def test_a_queue_that_refuses_takes_as_many_as_it_has_room_for() -> None:
    async with running(local(message_limit=100, when_full="refuse")) as (broker, (address,)):
        raw = await Raw.connect(address)
        await raw.open_session()
        await raw.open_producer("queue:q")
        raw.write(sends(single(BODIES)))
        refused = [(await raw.read_until(Kind.ERROR)).first for _ in BODIES[100:]]
        assert refused == [*range(101, MANY + 1)]
        assert broker.core.destinations.queues["q"].messages == 100


@in_loop
async def test_a_window_is_spent_and_renewed_by_what_was_sent() -> None:
    """A batch has more bytes than its messages had: they would make the window grow."""
    async with running(local(producer_window=3000)) as (broker, (address,)):
        raw = await Raw.connect(address)
        await raw.open_session()
        await raw.open_producer("queue:q")
        (producer,) = broker.core.destinations.queue("q").producers
        assert isinstance(producer, CoreProducer)
        raw.write(sends(single(BODIES)) + native.frame(Kind.ASK, {"ask": "status"}, first=1))
        # The answer waits for nothing, credit for the end of what was read.
        await raw.read_until(Kind.ANSWER)
        renewed = (await raw.read_until(Kind.CREDIT)).amount
        assert renewed + producer.spent == sum(map(len, BODIES))


@in_loop
async def test_what_came_before_a_broken_one_is_taken() -> None:
    async with running(local()) as (broker, (address,)):
        raw = await Raw.connect(address)
        await raw.open_session()
        await raw.open_producer("queue:q")
        message = MessageEncoder(ProducerDefaults()).message(b"x", {"type": "t"}, None)
        broken = message._replace(data=bytes(message.data)[:-3])
        raw.write(sends([*[message] * 100, broken, *[message] * 100]))
        assert "header" in await raw.is_ended()
        assert broker.core.destinations.queues["q"].messages == 100


@in_loop
async def test_consumers_that_compete_share_them() -> None:
    async with running(local()) as (_, (address,)):
        session = await (await client(address)).session()
        consumers = [await session.consumer("queue:q", prefetch=1000) for _ in range(4)]
        raw = await Raw.connect(address)
        await raw.open_session()
        await raw.open_producer("queue:q")
        raw.write(sends(single(BODIES[:400])))
        got = [[(await one.receive()).body for _ in range(50)] for one in consumers]
        assert len({body for some in got for body in some}) == 200


@pytest.mark.parametrize("destination", ["queue:q", "topic:t"])
@in_loop
async def test_they_are_dealt_to_the_consumers_one_by_one(destination: str) -> None:
    """As if each had come by itself; a batch that an application sends goes to one consumer, if it is small."""
    wish = {"shared": "s"} if destination.startswith("topic") else {}
    async with running(local()) as (_, (address,)):
        raw = await Raw.connect(address)
        await raw.open_session()
        for link in range(2, 6):
            about = {"destination": destination, **wish}
            raw.write(native.frame(Kind.OPEN_CONSUMER, about, session=1, link=link, amount=1000))
            await raw.read_until(Kind.OPENED)
        await raw.open_producer(destination)
        raw.write(sends(single(BODIES)))
        found = await delivered(raw, MANY)
        for link in range(2, 6):
            assert bodies_in([frame for frame in found if frame.link == link]) == BODIES[link - 2 :: 4]
        assert len(found) < MANY
        raw.send(*BODIES[:8], first=MANY + 1)
        assert [(frame.link, frame.amount) for frame in await delivered(raw, 8)] == [(2, 8)]
