"""No client keeps the loop for long: what it asks for waits for its turn, and what it does not read is not piled up."""

import asyncio
import socket
from collections.abc import Callable

import pytest

from mqlab.broker import limits
from mqlab.broker.core.model.sessions import CoreSession
from mqlab.broker.server.native.admin_requests import AdminRequestHandler
from mqlab.broker.server.startup import running
from mqlab.json_values import JsonObject
from mqlab.wire.native import frames as native
from mqlab.wire.native.frames import Frame, Kind

from .native_connections import native_connections
from .raw_client import Raw, client, in_loop, local, unwritten_at_rest

ASKED = 40_000
# What a connection's socket may have to write: the mark at which it says so, and the answers of a turn.
UNWRITTEN_MOST = 4 * 1024 * 1024
# Of the client: without it the system takes as many answers as it has memory for.
RECEIVE_BUFFER = 256 * 1024


def _asks(first: int, count: int, question: str = "status") -> bytes:
    return b"".join(native.frame(Kind.ASK, {"ask": question}, first=n) for n in range(first, first + count))


def _refused(first: int, count: int) -> bytes:
    about = {"destination": f"queue:temporary.{'x' * 240}"}
    return b"".join(native.frame(Kind.OPEN_PRODUCER, about, session=1, link=n) for n in range(first, first + count))


@pytest.mark.parametrize(
    ("commands", "number_of"),
    [(_asks, lambda frame: frame.first), (_refused, lambda frame: frame.link)],
    ids=("answers", "refusals"),
)
@in_loop
async def test_answers_that_the_client_does_not_read_are_not_made(
    commands: Callable[[int, int], bytes], number_of: Callable[[Frame], int]
) -> None:
    async with running(local()) as (broker, (address,)):
        raw = await Raw.connect(address)
        await raw.open_session()
        (connection,) = native_connections(broker)
        assert connection._transport is not None
        raw.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        raw.transport.pause_reading()
        raw.write(commands(1, ASKED))
        assert await unwritten_at_rest(connection._transport) < UNWRITTEN_MOST
        raw.transport.resume_reading()
        heard = [number_of(await raw.read()) for _ in range(ASKED)]
        assert heard == [*range(1, ASKED + 1)]


@in_loop
async def test_a_connection_with_long_work_waits_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn of the loop has time for one of its questions: the other client's is answered before the rest."""
    monkeypatch.setattr(limits, "TURN_NS", -1)
    order: list[object] = []
    answer = AdminRequestHandler.handle

    def noted(
        handler: AdminRequestHandler, fields: JsonObject, number: int, session: CoreSession | None
    ) -> JsonObject | None:
        order.append(handler._connection)
        return answer(handler, fields, number, session)

    monkeypatch.setattr(AdminRequestHandler, "handle", noted)
    async with running(local()) as (broker, (address,)):
        raw, other = await Raw.connect(address), await Raw.connect(address)
        first, _ = sorted(native_connections(broker), key=lambda one: one.number)
        raw.write(_asks(1, 1000))
        while not order:
            await asyncio.sleep(0)
        other.write(_asks(1, 1))
        await other.read_until(Kind.ANSWER)
        assert order.count(first) < 500
        assert [(await raw.read()).first for _ in range(1000)] == [*range(1, 1001)]
        assert order.count(first) == 1000
        # And it is read from again.
        raw.write(_asks(1001, 1))
        assert (await raw.read()).first == 1001


@pytest.mark.parametrize("more", [-1, 0, 1, 7])
@in_loop
async def test_a_list_comes_in_parts(more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LISTED", 4)
    async with running(local()) as (_, (address,)):
        connection = await client(address)
        session = await connection.session()
        await session.consumer("topic:t")
        for n in range(3 + more):
            await session.producer(f"queue:{n}")
        listed = (await connection.ask("list"))["destinations"]
        assert sorted(one["name"] for one in listed) == sorted(
            ["subscription:t", *(f"queue:{n}" for n in range(3 + more))]
        )
        raw = await Raw.connect(address)
        raw.write(native.frame(Kind.ASK, {"ask": "list"}, first=1))
        answer = (await raw.read()).json()
        assert len(answer["destinations"]) == min(4 + more, 4)
        assert ("more" in answer) == (more > 0)
        raw.write(native.frame(Kind.ASK, {"ask": "list", "after": "x"}, first=1))
        assert "not a number" in (await raw.read()).json()["error"]


@in_loop
async def test_reads_that_wait_for_their_turn_are_not_nested(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads that go on while frames wait: thousands of them are handled in their order, without recursion."""
    monkeypatch.setattr(limits, "TURN_NS", -1)
    order: list[int] = []

    def noted(_admin_requests: AdminRequestHandler, _question: object, number: int, _session: object) -> None:
        order.append(number)

    monkeypatch.setattr(AdminRequestHandler, "handle", noted)
    async with running(local()) as (broker, (address,)):
        raw = await Raw.connect(address)
        (connection,) = native_connections(broker)
        reads = 50_000
        for number in range(1, reads + 1):
            data = _asks(number, 1)
            connection.get_buffer(-1)[: len(data)] = data
            connection.buffer_updated(len(data))
        # A turn has time for one read; now there is time for all.
        monkeypatch.setattr(limits, "TURN_NS", 10**15)
        while connection._pending:
            await asyncio.sleep(0)
        assert order == [*range(1, reads + 1)]
        raw.write(_asks(reads + 1, 1))
        while len(order) <= reads:
            await asyncio.sleep(0)
