"""Deliveries that a client returns go to other consumers, as if they had never been delivered."""

from mqlab.broker.server.startup import running
from mqlab.wire.native import frames as native
from mqlab.wire.native.bodies import encode
from mqlab.wire.native.frames import Kind

from .raw_client import Raw, client, in_loop, local, seen


@in_loop
async def test_only_returned_deliveries_go_to_others_unmarked_and_in_order() -> None:
    async with running(local()) as (_, (address,)):
        raw = await Raw.connect(address)
        await raw.open_session()
        await raw.open_producer("queue:q")
        await raw.open_consumer("queue:q", room=6)
        raw.send(*(b"%d" % n for n in range(6)))
        assert (await raw.read_until(Kind.DELIVER)).amount == 6
        raw.write(native.header(Kind.ROLLBACK, session=1, link=2, first=2, amount=2))
        raw.write(native.header(Kind.ROLLBACK, session=1, link=2, first=5, amount=1))
        connection = await client(address)
        consumer = await (await connection.session()).consumer("queue:q")
        assert [seen(await consumer.receive(timeout=240)) for _ in range(3)] == [(b"%d" % n, False) for n in (1, 2, 4)]
        # The first consumer still holds the others, and acknowledges them.
        raw.write(native.header(Kind.ACKNOWLEDGE, link=2, first=6))
        await consumer.close()
        raw.write(native.frame(Kind.ASK, {"ask": "status"}, first=1))
        assert (await raw.read_until(Kind.ANSWER)).json()["messages"] == 0


@in_loop
async def test_a_client_cannot_return_deliveries_that_it_does_not_hold() -> None:
    async with running(local()) as (_, (address,)):
        raw = await Raw.connect(address)
        await raw.open_session()
        await raw.open_producer("queue:q")
        await raw.open_consumer("queue:q", room=1)
        connection = await client(address)
        session = await connection.session()
        await (await session.producer("queue:q")).send_batch(encode([b"a", b"b"]), confirm=True)
        await raw.read_until(Kind.DELIVER)
        raw.write(native.header(Kind.ACKNOWLEDGE, link=2, first=1))
        for first, amount in ((1, 1), (2, 1), (0, 1), (2**62, 2**31)):
            raw.write(native.header(Kind.ROLLBACK, session=1, link=2, first=first, amount=amount))
        raw.write(native.frame(Kind.ASK, {"ask": "status"}, first=1))
        assert (await raw.read_until(Kind.ANSWER)).json()["messages"] == 1
        assert seen(await (await session.consumer("queue:q")).receive(timeout=240)) == (b"b", False)
