"""What is recorded of each operation."""

import asyncio
import json
import time
from pathlib import Path

import pyarrow as pa
import pytest

from broker.server.raw_client import Raw, in_loop, local
from broker.server.trace.traced_clients import named, one_of, operations, recorded
from mqlab.broker.server.startup import running
from mqlab.client.errors import RefusedError
from mqlab.wire.native import frames as native
from mqlab.wire.native.bodies import encode
from mqlab.wire.native.columns import encode_columns
from mqlab.wire.native.frames import Flag, Kind


@in_loop
async def test_a_request_and_its_reply() -> None:
    async with running(local(trace="medium")) as (_, (address,)):
        before = time.time_ns()
        asking, answering = await named(address, "Requester0"), await named(address, "Responder0")
        requester = await (await asking.session()).requester("queue:requests", reply_to="queue:replies")
        session = await answering.session()
        consumer = await session.consumer("queue:requests")
        task = asyncio.ensure_future(requester.request(b"question"))
        await session.reply(await consumer.receive(), b"reply")
        reply = await task
        await asking.close()
        found = await recorded(address)
        mine = [one for one in found if one["application"] == "Requester0"]
        assert [one["operation"] for one in mine] == [
            "connect", "open", "open", "open", "put", "get-by-id", "disconnect",
        ]  # fmt: skip
        put, get = one_of(mine, "put"), one_of(mine, "get-by-id")
        assert (put["destination"], put["messages"], put["code"]) == ("queue:requests", 1, "ok")
        assert put["bytes"] > len(b"question")
        assert get["destination"] == "queue:replies"
        asked_for = json.loads(get["detail"])["correlation_id"]
        assert asked_for == reply.correlation_id == json.loads(put["detail"])["correlation_id"]
        # It waited for the reply, which was put after it began.
        answered = next(one for one in found if one["application"] == "Responder0" and one["operation"] == "put")
        assert get["t"] <= answered["t"] < get["t"] + get["duration"]
        for one in found:
            assert before <= one["t"] <= one["t"] + one["duration"] <= time.time_ns()
            assert one["connection"] == {"Requester0": 1, "Responder0": 2}[one["application"]]


@in_loop
async def test_a_batch_is_one_operation() -> None:
    async with running(local(trace="low")) as (_, (address,)):
        connection = await named(address, "App")
        session = await connection.session("client")
        producer, consumer = await session.producer("queue:a"), await session.consumer("queue:a", prefetch=10)
        await producer.send_batch(encode([b"x"] * 10), confirm=True)
        delivery = await consumer.receive_batch()
        session.acknowledge()
        await connection.status()
        found = await recorded(address, "App")
        size = len(delivery.payload.data)
        for operation, messages, length in (("put", 10, size), ("get", 10, size), ("acknowledge", 10, 0)):
            one = one_of(found, operation)
            assert (one["messages"], one["bytes"], one["destination"]) == (messages, length, "queue:a")
        assert {one["detail"] for one in found} == {""}


@pytest.mark.parametrize("confirmed", [True, False])
@in_loop
async def test_a_put_lasts_until_it_is_confirmed(tmp_path: Path, confirmed: bool) -> None:
    """On a disk with five marks a second the confirmation takes its time; without one, only the handling counts."""
    async with running(local(data=tmp_path, trace="low", disk_marks=5)) as (_, (address,)):
        connection = await named(address, "App")
        producer = await (await connection.session()).producer("queue:a")
        # Right after a mark: the next one is far.
        await producer.send_batch(encode([b"first"]), persistent=True, confirm=True)
        await producer.send_batch(encode([b"x"]), persistent=True, confirm=confirmed)
        await connection.status()
        await producer.close()
        first, second = [one for one in await recorded(address, "App") if one["operation"] == "put"]
        assert (second["duration"] > 50_000_000) == confirmed
        assert first["code"] == second["code"] == "ok"


@in_loop
async def test_transactions() -> None:
    async with running(local(trace="medium")) as (_, (address,)):
        connection = await named(address, "App")
        session = await connection.session("transacted")
        producer = await session.producer("queue:a")
        await producer.send(b"one")
        await producer.send_batch(encode([b"two", b"three"]))
        await session.commit()
        await producer.send(b"four")
        await session.rollback()
        await producer.send(b"five")
        await session.prepare("xid-1")
        await connection.commit("xid-1")
        found = await recorded(address, "App")
        names = [one["operation"] for one in found if one["operation"] not in ("connect", "open")]
        assert names == ["put", "put", "commit", "put", "rollback", "put", "prepare", "commit"]
        commit = next(one for one in found if one["operation"] == "commit")
        assert (commit["messages"], commit["bytes"]) == (3, sum(one["bytes"] for one in found[3:5]))
        assert json.loads(one_of(found, "prepare")["detail"])["xid"] == "xid-1"


@in_loop
async def test_how_things_are_opened_and_closed() -> None:
    async with running(local(trace="medium")) as (_, (address,)):
        connection = await named(address, "App")
        session = await connection.session()
        consumer = await session.consumer("topic:t.#", selector="a = 'b'", durable="sub", prefetch=7)
        producer = await session.producer("topic:t")
        await producer.close()
        await consumer.close()
        await (await session.consumer("queue:q")).close()
        await session.close()
        found = await recorded(address, "App")
        assert operations(found) == [
            ("connect", ""), ("open", ""), ("open", "topic:t.#"), ("open", "topic:t"), ("close", "topic:t"),
            ("close", "subscription:sub"), ("open", "queue:q"), ("close", "queue:q"), ("close", ""),
        ]  # fmt: skip
        options = json.loads(found[2]["detail"])
        assert (options["selector"], options["durable"], options["room"]) == ("a = 'b'", "sub", 7)


@in_loop
async def test_browsing_rooms_and_single_acknowledgements() -> None:
    async with running(local(trace="low")) as (_, (address,)):
        connection = await named(address, "App")
        session = await connection.session("individual")
        producer, consumer = await session.producer("queue:a"), await session.consumer("queue:a", prefetch=0)
        await producer.send_batch(encode([b"1", b"2", b"3"]), confirm=True)
        assert [message.body async for message in await session.browser("queue:a")] == [b"1", b"2", b"3"]
        consumer.acknowledge(await consumer.receive())
        await connection.status()
        found = await recorded(address, "App")
        browse, get = one_of(found, "browse"), one_of(found, "get")
        assert (browse["messages"], get["messages"]) == (3, 1)
        done = [one["messages"] for one in found if one["operation"] == "acknowledge" and one["t"] > get["t"]]
        assert done == [1]
        assert "room" in [one["operation"] for one in found]


@in_loop
async def test_a_receive_that_was_given_up() -> None:
    async with running(local(trace="low")) as (_, (address,)):
        connection = await named(address, "App")
        consumer = await (await connection.session()).consumer("queue:a", prefetch=0)
        with pytest.raises(TimeoutError):
            await consumer.receive(0.05, correlation_id="never")
        one = one_of(await recorded(address, "App"), "get-by-id")
        assert (one["code"], one["messages"]) == ("cancelled", 0)
        assert one["duration"] > 25_000_000


@in_loop
async def test_receives_by_id_have_their_own_times_whatever_comes_first() -> None:
    async with running(local(trace="medium")) as (_, (address,)):
        raw = await Raw.connect(address)
        await raw.open_session()
        await raw.open_consumer("queue:a", room=0)
        for wanted in ("one", "two"):
            raw.write(native.header(Kind.RECEIVE, link=2, length=3) + wanted.encode())
            raw.write(native.frame(Kind.ASK, {"ask": "status"}, first=1))
            await raw.read_until(Kind.ANSWER)
        other = await named(address, "Other")
        producer = await (await other.session()).producer("queue:a")
        for wanted in ("two", "one"):
            bodies = pa.array([b"x"], pa.binary())
            await producer.send_batch(encode_columns(bodies, {"correlation_id": pa.array([wanted])}), confirm=True)
        await raw.read_until(Kind.DELIVER)
        await raw.read_until(Kind.DELIVER)
        found = [one for one in await recorded(address, "") if one["operation"] == "get-by-id"]
        assert [json.loads(one["detail"])["correlation_id"] for one in found] == ["one", "two"]
        assert found[0]["t"] + found[0]["duration"] > found[1]["t"] + found[1]["duration"]


@in_loop
async def test_what_is_refused_says_why() -> None:
    async with running(local(trace="medium", queue_limit=10, when_full="refuse")) as (_, (address,)):
        connection = await named(address, "App")
        session = await connection.session()
        producer = await session.producer("queue:full")
        await producer.send_batch(encode([b"x" * 20]), confirm=True)
        with pytest.raises(RefusedError):
            await producer.send_batch(encode([b"x" * 20]), confirm=True)
        with pytest.raises(RefusedError):
            await session.consumer("queue:a", selector="= =")
        with pytest.raises(RefusedError):
            await session.producer("nowhere")
        with pytest.raises(RefusedError):
            await connection.ask("show", name="queue:none")
        found = [one for one in await recorded(address, "App") if one["code"] != "ok"]
        assert operations(found) == [
            ("put", "queue:full"), ("open", "queue:a"), ("open", "nowhere"), ("ask", "queue:none"),
        ]  # fmt: skip
        assert [one["code"][:9] for one in found] == ["refused: "] * 4
        assert found[0]["code"] == "refused: queue:full is full"
        assert {one["messages"] for one in found} == {0}


@in_loop
async def test_a_broken_rule_and_what_was_under_way() -> None:
    async with running(local(trace="low")) as (_, (address,)):
        raw = await Raw.connect(address)
        await raw.open_session()
        await raw.open_consumer("queue:a", room=0)
        raw.write(native.header(Kind.RECEIVE, link=2, length=3) + b"one")
        raw.write(native.header(Kind.ACKNOWLEDGE_ROWS, link=99, first=1, amount=1))
        await raw.is_ended()
        found = await recorded(address, "")
        assert one_of(found, "acknowledge")["code"] == "failed: there is no consumer 99"
        assert one_of(found, "get-by-id")["code"] == "failed: the connection is gone"
        assert found[-1]["operation"] == "disconnect"


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Kind.OPEN_PRODUCER, {"destination": "queue:\ud800"}),
        (Kind.OPEN_PRODUCER, {"destination": "queue:" + "x" * 10_000}),
        (Kind.OPEN_CONSUMER, {"destination": "queue:a", "selector": "\ud800 = 1"}),
        (Kind.ASK, {"ask": "show", "name": "queue:\udfff", "more": [1, {"deep": None}], "\ud801": 1e400}),
    ],
)
@in_loop
async def test_whatever_a_client_says_can_be_recorded(kind: Kind, value: dict[str, object]) -> None:
    async with running(local(trace="high")) as (_, (address,)):
        raw = await Raw.connect(address)
        await raw.open_session()
        raw.write(native.frame(kind, value, session=1, link=5))
        await raw.read_until(Kind.ANSWER if kind == Kind.ASK else Kind.ERROR)
        found = await recorded(address, "")
        assert found[-1]["code"].startswith("refused: ")
        assert len(found[-1]["destination"]) <= 255
        json.loads(found[-1]["detail"])


@in_loop
async def test_a_put_in_a_transaction_waits_for_no_confirmation() -> None:
    async with running(local(trace="low")) as (_, (address,)):
        raw = await Raw.connect(address)
        await raw.open_session(transacted=True)
        await raw.open_producer("queue:a")
        raw.send(b"x", flags=Flag.CONFIRM)
        raw.write(native.header(Kind.COMMIT, session=1))
        await raw.read_until(Kind.COMMITTED)
        found = await recorded(address, "")
        assert [one["operation"] for one in found][-2:] == ["put", "commit"]


@in_loop
async def test_who_reads_the_trace_leaves_no_trace_of_the_reading() -> None:
    async with running(local(trace="low")) as (_, (address,)):
        connection = await named(address, "App")
        await recorded(address)
        consumer = await (await connection.session()).consumer("queue:mqlab.trace")
        await recorded(address)
        await consumer.close()
        assert {one["destination"] for one in await recorded(address, "App")} == {""}
