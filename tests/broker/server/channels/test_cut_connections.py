"""Connections of a channel are cut and brokers stop at critical moments: each message arrives once."""

import asyncio
import json
from pathlib import Path

import pytest

from broker.server.raw_client import in_loop
from mqlab.broker.core.durability.checkpoint import all_spans
from mqlab.broker.core.model.messages import Span
from mqlab.client import aio
from mqlab.wire.native.bodies import encode

from .pair import Pair, bodies, until


async def warm(pair: Pair, persistent: bool) -> aio.Producer:
    """One message has gone through: the channel's producer over there is open, and its opening cannot be cut off."""
    producer = await (await pair.session("A")).producer("queue:q@B")
    await producer.send_batch(encode([b"0"]), persistent=persistent, confirm=True)
    await until(lambda: not pair.waiting())
    return producer


@pytest.mark.parametrize("persistent", [True, False])
@in_loop
async def test_a_batch_whose_confirmation_was_lost_is_not_sent_again(persistent: bool, tmp_path: Path) -> None:
    async with Pair(tmp_path) as pair:
        producer = await warm(pair, persistent)
        pair.gate.hold("back")
        await producer.send_batch(encode([b"1", b"2"]), persistent=persistent, confirm=True)
        await until(lambda: pair.depth("q") == 3)
        assert (pair.status["in_doubt"], pair.waiting()) == (2, 2)
        await pair.gate.close()
        await producer.send_batch(encode([b"3"]), persistent=persistent, confirm=True)
        await pair.gate.open()
        assert await bodies(await pair.session("B"), "queue:q", 4) == [b"0", b"1", b"2", b"3"]
        await until(lambda: not pair.waiting())
        assert (pair.depth("q"), pair.status["messages"], pair.status["in_doubt"]) == (0, 4, 0)


@pytest.mark.parametrize("persistent", [True, False])
@in_loop
async def test_a_batch_that_never_arrived_is_sent_again(persistent: bool, tmp_path: Path) -> None:
    async with Pair(tmp_path) as pair:
        producer = await warm(pair, persistent)
        pair.gate.hold("there")
        await producer.send_batch(encode([b"1", b"2"]), persistent=persistent, confirm=True)
        await until(lambda: pair.status["in_doubt"] == 2)
        await pair.gate.close()
        await pair.gate.open()
        assert await bodies(await pair.session("B"), "queue:q", 3) == [b"0", b"1", b"2"]
        await until(lambda: not pair.waiting())
        assert (pair.depth("q"), pair.status["lost"]) == (0, 0)


@pytest.mark.parametrize("who", ["A", "B", "AB"])
@pytest.mark.parametrize("arrived", [True, False])
@in_loop
async def test_persistent_messages_in_doubt_outlive_either_broker(who: str, arrived: bool, tmp_path: Path) -> None:
    async with Pair(tmp_path) as pair:
        producer = await warm(pair, True)
        pair.gate.hold("back" if arrived else "there")
        await producer.send_batch(encode([b"1", b"2"]), persistent=True, confirm=True)
        await until(lambda: pair.status["in_doubt"] == 2 and (not arrived or pair.depth("q") == 3))
        await pair.gate.close()
        for name in who:
            await pair.stop(name)
            await pair.start(name)
        await pair.gate.open()
        producer = await (await pair.session("A")).producer("queue:q@B")
        await producer.send_batch(encode([b"3"]), persistent=True, confirm=True)
        assert await bodies(await pair.session("B"), "queue:q", 4) == [b"0", b"1", b"2", b"3"]
        await until(lambda: not pair.waiting())
        assert pair.depth("q") == 0


@pytest.mark.parametrize("arrived", [True, False])
@in_loop
async def test_others_in_doubt_are_lost_with_the_other_broker_and_never_come_twice(
    arrived: bool, tmp_path: Path
) -> None:
    async with Pair(tmp_path) as pair:
        producer = await warm(pair, False)
        pair.gate.hold("back" if arrived else "there")
        await producer.send_batch(encode([b"1"]), confirm=True)
        await until(lambda: pair.status["in_doubt"] == 1 and (not arrived or pair.depth("q") == 2))
        await pair.gate.close()
        await producer.send_batch(encode([b"2"]), confirm=True)
        await pair.stop("B")
        await pair.start("B")
        await pair.gate.open()
        # What was not under way arrives.
        assert await bodies(await pair.session("B"), "queue:q", 1) == [b"2"]
        assert (pair.status["lost"], pair.waiting()) == (1, 0)


@in_loop
async def test_a_removal_that_the_journal_may_not_have_stays_in_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next batch overtakes the sync of the last one's removal here; a crash now would bring that one back."""
    async with Pair(tmp_path) as pair:
        producer, broker = await warm(pair, True), pair.brokers["A"]
        await until(lambda: len(token_of(pair)) == 1)
        pair.gate.hold("back")
        await producer.send_batch(encode([b"1"]), persistent=True, confirm=True)
        await until(lambda: pair.depth("q") == 2)
        # From now on nothing that this broker syncs is reported; the first is the removal of what has arrived.
        held: list[int] = []
        report = broker.on_durable
        monkeypatch.setattr(broker, "on_durable", held.append)
        pair.gate.let("back")
        await until(lambda: held)
        await producer.send_batch(encode([b"2"]))
        await until(lambda: not pair.status["in_doubt"] and pair.depth("q") == 3)
        (token,) = token_of(pair)
        assert (sum(rows for _, rows in named(token)), token.persistent) == (2, True)
        monkeypatch.setattr(broker, "on_durable", report)
        report(max(held))
        await producer.send_batch(encode([b"3"]))
        await until(lambda: not pair.waiting() and pair.depth("q") == 4)
        (token,) = token_of(pair)
        assert (sum(rows for _, rows in named(token)), token.persistent) == (1, False)


def token_of(pair: Pair) -> list[Span]:
    return all_spans(pair.brokers["B"].core.destinations.queues["channel.A"])


def named(token: Span) -> list[tuple[int, int]]:
    return [(first, rows) for first, rows in json.loads(bytes(token.whole().data))["ids"]]


@in_loop
async def test_a_cut_at_any_byte(tmp_path: Path) -> None:
    """Many short lives of a link while messages flow."""
    async with Pair(tmp_path, batch=7) as pair:
        producer = await (await pair.session("A")).producer("queue:q@B")
        wanted = [b"%d" % number for number in range(60)]

        async def send() -> None:
            for at in range(0, 60, 3):
                await producer.send_batch(encode(wanted[at : at + 3]), persistent=at % 2 == 0, confirm=True)
                await asyncio.sleep(0)

        sending = asyncio.ensure_future(send())
        while pair.status["messages"] < 50:
            before = pair.status["messages"]
            await until(lambda before=before: pair.status["messages"] > before)  # type: ignore[misc] # mypy takes its default for a parameter
            await pair.gate.close()
            await pair.gate.open()
            pair.brokers["A"].channels.get("B").start()
        await sending
        assert await bodies(await pair.session("B"), "queue:q", 60) == wanted
        await until(lambda: not pair.waiting())
        assert pair.depth("q") == 0


@in_loop
async def test_a_new_connection_takes_over_from_one_that_is_dead_and_does_not_know(tmp_path: Path) -> None:
    """The token is in the hand of a connection that B still takes for alive."""
    async with Pair(tmp_path) as pair:
        await pair.becomes("running")
        (old,) = [one for one in pair.brokers["B"].connections if one.client_id == "channel.A"]
        channel = pair.brokers["A"].channels.get("B")
        pair.gate.hold("there")
        # A gives the connection up; its end cannot pass the gate.
        await channel.stop()
        assert old in pair.brokers["B"].connections
        pair.gate.let("there", "back")
        channel.start()
        await pair.becomes("running")
        producer = await (await pair.session("A")).producer("queue:q@B")
        await producer.send(b"1", persistent=True)
        assert await bodies(await pair.session("B"), "queue:q", 1) == [b"1"]
