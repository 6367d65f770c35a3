"""A channel transfers messages as they were sent, in order, in batches."""

import asyncio
from pathlib import Path

import pytest

from broker.server.raw_client import in_loop
from mqlab.broker.channel_settings import ChannelSettings
from mqlab.client.headers import Headers, Int
from mqlab.wire.native.bodies import encode

from .pair import PATIENCE, Pair, bodies, until


@in_loop
async def test_a_message_arrives_as_it_was_sent(tmp_path: Path) -> None:
    async with Pair(tmp_path, {"remotes": (("orders", "queue:orders@B"),)}) as pair:
        consumer = await (await pair.session("B")).consumer("queue:orders")
        producer = await (await pair.session("A")).producer("queue:orders", time_to_live=60_000)
        headers: Headers = {"correlation_id": "c", "reply_to": "queue:r", "type": "t", "group": "g"}
        headers["priority"] = 7
        for persistent in (True, False):
            await producer.send(b"body", persistent=persistent, properties={"n": Int(5), "s": "text"}, **headers)
        for persistent in (True, False):
            message = await consumer.receive(PATIENCE)
            assert (message.body, message.persistent, message.redelivered) == (b"body", persistent, False)
            assert {name: getattr(message, name) for name in headers} == headers
            assert message.properties == {"n": 5, "s": "text"}
            assert message.id is not None
            assert message.timestamp is not None
            assert message.expiration == message.timestamp + 60_000
            assert message.destination == "queue:orders"


@pytest.mark.parametrize("persistent", [True, False])
@in_loop
async def test_order_is_kept_and_what_is_there_goes_together(persistent: bool, tmp_path: Path) -> None:
    """Single messages too: they arrive as few batches."""
    async with Pair(tmp_path, batch=50) as pair:
        await pair.gate.close()
        producer = await (await pair.session("A")).producer("queue:q@B")
        wanted = [b"%d" % number for number in range(120)]
        for body in wanted[:60]:
            await producer.send_batch(encode([body]), persistent=persistent, confirm=True)
        await producer.send_batch(encode(wanted[60:]), persistent=persistent, confirm=True)
        await pair.gate.open()
        assert await bodies(await pair.session("B"), "queue:q", 120) == wanted
        await until(lambda: not pair.waiting())
        status = pair.status
        assert (status["messages"], status["refused"], status["lost"], status["in_doubt"]) == (120, 0, 0, 0)
        assert 3 <= status["batches"] <= 5
        assert status["batch_mean"] == 120 / status["batches"]
        assert status["monitoring"]["looks"] == status["batches"]
        assert status["monitoring"]["round_trip_short_us"] > 0


@in_loop
async def test_priorities_and_expiry_go_on_while_messages_wait(tmp_path: Path) -> None:
    async with Pair(tmp_path) as pair:
        stopped = pair.brokers["A"].channels.get("B")
        await stopped.stop()
        producer = await (await pair.session("A")).producer("queue:q@B")
        await producer.send(b"late", persistent=True, time_to_live=1)
        for priority in (1, 9):
            await producer.send(b"%d" % priority, persistent=True, priority=priority)
        await asyncio.sleep(0.005)
        stopped.start()
        assert await bodies(await pair.session("B"), "queue:q", 2) == [b"9", b"1"]
        await until(lambda: not pair.waiting())
        assert pair.depth("q") == 0


@in_loop
async def test_a_request_is_answered_from_the_other_broker(tmp_path: Path) -> None:
    """The requester's reply queue, its own or shared, is named with its broker."""
    back = {"channels": (ChannelSettings("A", f"unix:{tmp_path / 'A'}", retry=1),)}
    async with Pair(tmp_path, b=back) as pair:
        for reply_to in ("", "queue:replies"):
            asking, answering = await pair.session("A"), await pair.session("B")
            requester = await asking.requester("queue:questions@B", reply_to=reply_to)
            assert requester.reply_to.endswith("@A")
            asked = asyncio.ensure_future(requester.request(b"?", timeout=PATIENCE))
            consumer = await answering.consumer("queue:questions")
            await answering.reply(await consumer.receive(PATIENCE), b"!")
            assert (await asked).body == b"!"
            await consumer.close()


@in_loop
async def test_brokers_that_keep_nothing_on_disk(tmp_path: Path) -> None:
    async with Pair(tmp_path, {"data": None}, {"data": None}) as pair:
        producer = await (await pair.session("A")).producer("queue:q@B")
        await producer.send_batch(encode([b"1", b"2"]))
        assert await bodies(await pair.session("B"), "queue:q", 2) == [b"1", b"2"]


@in_loop
async def test_the_api_trace_knows_channels(tmp_path: Path) -> None:
    """They have sessions and consumers like clients, and no connection."""
    traced = {"api_trace": tmp_path / "trace", "api_trace_internal": True}
    async with Pair(tmp_path, traced) as pair:
        producer = await (await pair.session("A")).producer("queue:q@B")
        await producer.send(b"1", persistent=True)
        assert await bodies(await pair.session("B"), "queue:q", 1) == [b"1"]
