"""Request/reply over a shared and a temporary queue, late replies, many requesters at once."""

import asyncio
import threading
from pathlib import Path

import pytest

from broker.server.raw_client import client, in_loop, local
from features.message_helpers import assert_no_messages, numbers
from mqlab.client import MessagingError, RefusedError, aio, connect

from .broker_helpers import Served, running

pytestmark = pytest.mark.usefixtures("each_way")

KINDS = pytest.mark.parametrize("reply_to", ["", "queue:replies"], ids=["temporary", "shared"])


async def echo(session: aio.Session, requests: aio.Consumer, count: int) -> None:
    for _ in range(count):
        request = await requests.receive(timeout=240)
        await session.reply(request, request.body)


@KINDS
@in_loop
async def test_many_requesters_at_once_each_get_their_own_reply(reply_to: str) -> None:
    async with running(local()) as (_, (address,)):
        serving = await (await client(address)).session()
        server = asyncio.ensure_future(echo(serving, await serving.consumer("queue:requests"), 20 * 25))

        async def ask(connection: aio.Connection, number: int) -> list[bytes]:
            requester = await (await connection.session()).requester("queue:requests", reply_to=reply_to)
            replies = [(await requester.request(b"%d/%d" % (number, n), 30)).body for n in range(25)]
            await requester.close()
            return replies

        connections = [await client(address) for _ in range(5)]
        replies = await asyncio.gather(*(ask(connections[number % 5], number) for number in range(20)))
        assert replies == [[b"%d/%d" % (number, n) for n in range(25)] for number in range(20)]
        await server


@KINDS
@in_loop
async def test_a_late_reply_is_never_mistaken_for_another(reply_to: str) -> None:
    async with running(local()) as (_, (address,)):
        connection = await client(address)
        serving = await connection.session()
        requests = await serving.consumer("queue:requests")
        requester = await (await connection.session()).requester("queue:requests", reply_to=reply_to)
        with pytest.raises(TimeoutError):
            await requester.request(b"slow", timeout=0.01)
        slow = await requests.receive(timeout=240)
        waiting = asyncio.ensure_future(requester.request(b"next", timeout=240))
        following = await requests.receive(timeout=240)
        # The late one comes first, and the same answer a second time at the end.
        for request, body in ((slow, b"late"), (slow, b"late again"), (following, b"right"), (following, b"twice")):
            await serving.reply(request, body)
        assert (await waiting).body == b"right"
        again = asyncio.ensure_future(requester.request(b"last", timeout=240))
        await serving.reply(await requests.receive(timeout=240), b"last")
        assert (await again).body == b"last"


@KINDS
@in_loop
async def test_a_cancelled_request_leaves_the_next_one_alone(reply_to: str) -> None:
    """Cancelled at every turn of the loop between the request and the reply."""
    async with running(local()) as (_, (address,)):
        serving = await (await client(address)).session()
        server = asyncio.ensure_future(echo(serving, await serving.consumer("queue:requests"), 10**6))
        requester = await (await (await client(address)).session()).requester("queue:requests", reply_to=reply_to)
        for turns in range(60):
            asking = asyncio.ensure_future(requester.request(b"cancelled %d" % turns))
            for _ in range(turns):
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.wait([asking])
            assert (await requester.request(b"%d" % turns, timeout=240)).body == b"%d" % turns
        server.cancel()


@in_loop
async def test_the_time_for_a_reply_is_not_prolonged_by_other_replies() -> None:
    async with running(local()) as (_, (address,)):
        connection = await client(address)
        serving = await connection.session()
        requests = await serving.consumer("queue:requests")
        requester = await (await connection.session()).requester("queue:requests")
        with pytest.raises(TimeoutError):
            await requester.request(b"old", timeout=0)
        old = await requests.receive(timeout=240)

        async def late_replies() -> None:
            while True:
                await serving.reply(old, b"late")
                await asyncio.sleep(0.005)

        disturbing = asyncio.ensure_future(late_replies())
        async with asyncio.timeout(240):
            with pytest.raises(TimeoutError):
                await requester.request(b"new", timeout=0.1)
        disturbing.cancel()


@in_loop
async def test_replies_carry_the_id_of_a_request_without_correlation_id_and_may_have_headers_of_their_own() -> None:
    async with running(local()) as (_, (address,)):
        session = await (await client(address)).session()
        replies, requests = await session.consumer("queue:replies"), await session.consumer("queue:requests")
        producer = await session.producer("queue:requests")
        await producer.send(b"question", reply_to="queue:replies", type="q")
        request = await requests.receive(timeout=240)
        await session.reply(request, b"answer", type="a", priority=9)
        reply = await replies.receive(timeout=240)
        assert (reply.body, reply.correlation_id, reply.type, reply.priority) == (b"answer", request.id, "a", 9)
        await producer.send(b"no question", type="q")
        with pytest.raises(ValueError, match="has no reply_to"):
            await session.reply(await requests.receive(timeout=240), b"?")


@in_loop
async def test_a_reply_to_one_who_has_left_is_refused_and_disturbs_nobody() -> None:
    async with running(local()) as (broker, (address,)):
        connection, lost = await client(address), await aio.connect(str(address))
        serving = await connection.session()
        requests = await serving.consumer("queue:requests")
        requester = await (await lost.session()).requester("queue:requests")
        asking = asyncio.ensure_future(requester.request(b"x"))
        request = await requests.receive(timeout=240)
        await lost.drop()
        while len(broker.connections) > 1:
            await asyncio.sleep(0)
        with pytest.raises(RefusedError, match="gone"):
            await serving.reply(request, b"too late")
        with pytest.raises(MessagingError):
            await asking
        other = await (await connection.session()).requester("queue:requests")
        answer = asyncio.ensure_future(other.request(b"y"))
        await serving.reply(await requests.receive(timeout=240), b"in time")
        assert (await answer).body == b"in time"


@in_loop
async def test_replies_go_to_more_queues_than_a_session_keeps_producers_for() -> None:
    async with running(local()) as (_, (address,)):
        connection = await client(address)
        session = await connection.session()
        requests, producer = await session.consumer("queue:requests"), await session.producer("queue:requests")
        for turn in range(2):
            for n in range(100):
                await producer.send(b"%d" % n, reply_to=f"queue:reply.{n}")
                await session.reply(await requests.receive(timeout=240), b"%d" % turn)
        await session.flush()
        listed = (await connection.ask("list"))["destinations"]
        assert sorted(one["messages"] for one in listed) == [1] + [2] * 100
        assert sum(one["producers"] for one in listed) <= 66


@in_loop
async def test_a_temporary_queue_is_its_connections_own() -> None:
    async with running(local()) as (broker, (address,)):
        connection, other = await aio.connect(str(address)), await client(address)
        name = await connection.temporary_queue()
        session, stranger = await connection.session(), await other.session()
        with pytest.raises(RefusedError, match="another connection's"):
            await stranger.consumer(name)
        producer = await stranger.producer(name)
        await producer.send(b"for you")
        assert (await (await session.consumer(name)).receive(timeout=240)).body == b"for you"
        await connection.close()
        while len(broker.connections) > 1:
            await asyncio.sleep(0)
        with pytest.raises(RefusedError):
            await producer.send_batch(producer.encoder.batch([b"too late"]), confirm=True)
        with pytest.raises(RefusedError, match="gone"):
            await stranger.producer(name)
        assert (await other.status())["queues"] == 0


@in_loop
async def test_a_persistent_request_is_on_disk_and_its_reply_can_be(tmp_path: Path) -> None:
    async with running(local(data=tmp_path)) as (_, (address,)):
        connection = await client(address)
        session = await connection.session()
        requester = await session.requester("queue:requests", reply_to="queue:replies", persistent=True)
        with pytest.raises(TimeoutError):
            await requester.request(b"x", timeout=0)
    async with running(local(data=tmp_path)) as (_, (address,)):
        connection = await client(address)
        session = await connection.session()
        request = await (await session.consumer("queue:requests")).receive(timeout=240)
        await session.reply(request, b"y", persistent=True)
    async with running(local(data=tmp_path)) as (_, (address,)):
        connection = await client(address)
        replies = await (await connection.session()).consumer("queue:replies", prefetch=0)
        reply = await replies.receive(timeout=240, correlation_id=request.correlation_id)
        assert (reply.body, reply.persistent) == (b"y", True)
        await assert_no_messages(connection, replies)


@in_loop
async def test_a_transacted_session_cannot_wait_for_a_reply() -> None:
    """Its request would leave with the commit, which comes after the wait."""
    async with running(local()) as (_, (address,)):
        session = await (await client(address)).session("transacted")
        with pytest.raises(MessagingError, match="commit"):
            await session.requester("queue:requests")


@KINDS
def test_the_blocking_requester(served: Served, reply_to: str) -> None:
    with connect(served.address) as connection, connect(served.address) as other:
        serving = other.session()
        requests = serving.consumer("queue:requests")
        requests.listen(lambda request: serving.reply(request, request.body * 2))
        found: dict[int, list[bytes]] = {}

        def ask(number: int) -> None:
            requester = connection.session().requester("queue:requests", reply_to=reply_to)
            found[number] = [requester.request(b"%d" % (number * 100 + n), timeout=240).body for n in range(10)]
            requester.close()

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == {
            number: [body * 2 for body in numbers(number * 100, number * 100 + 10)] for number in range(1, 5)
        }
        requester = connection.session().requester("queue:nobody", reply_to=reply_to)
        with pytest.raises(TimeoutError):
            requester.request(b"x", timeout=0.01)
