"""A client that takes much of the loop's time waits for the others, and only while others wait."""

import asyncio
import time
from collections.abc import Callable

import pytest

from mqlab.broker import limits
from mqlab.broker.server import scheduler
from mqlab.broker.server.adapter.transport import AdapterTransport
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.inprocess.connection import InProcessConnection
from mqlab.broker.server.native.connection import NativeServerConnection
from mqlab.broker.server.scheduler import TimeShare
from mqlab.broker.server.startup import running
from mqlab.broker.server.stomp.connection import StompServerConnection
from mqlab.wire.native import frames as native
from mqlab.wire.native.frames import Kind

from .raw_client import Raw, in_loop, local
from .stomp.stomp_clients import frame

SECOND_NS = 1_000_000_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], int]:
    """Set the clock to a number of nanoseconds, and return it."""
    now_ns = [SECOND_NS]
    monkeypatch.setattr(scheduler, "time_ns", lambda: now_ns[0])

    def set_to(time_ns: int) -> int:
        now_ns[0] = time_ns
        return time_ns

    return set_to


def test_a_share_is_used_up_by_work_and_comes_back_with_time(clock: Callable[[int], int]) -> None:
    share = TimeShare()
    rested_ns = clock(2 * SECOND_NS)
    assert not share.is_used_up(rested_ns)
    share.charge(rested_ns, 3 * limits.TURN_NS)
    assert share.is_used_up(rested_ns + limits.TURN_NS)
    assert not share.is_used_up(rested_ns + 2 * limits.TURN_NS * limits.TIME_SHARE)


@pytest.mark.usefixtures("clock")
def test_a_new_client_waits_at_first() -> None:
    share = TimeShare()
    assert share.is_used_up(SECOND_NS)
    assert not share.is_used_up(SECOND_NS + limits.TURN_NS * limits.TIME_SHARE)


@pytest.mark.usefixtures("clock")
def test_a_clock_that_is_set_back_costs_nobody_time() -> None:
    share = TimeShare()
    share.charge(SECOND_NS, -SECOND_NS)
    assert not share.is_used_up(10 * SECOND_NS)


def _busy(broker: Broker) -> list[str]:
    """A slice waits for its turn. Return the list to which it writes when it runs."""
    order: list[str] = []
    broker.scheduler.defer(lambda: order.append("slice"))
    return order


def _use_much(share: TimeShare) -> None:
    share.charge(time.time_ns() - SECOND_NS, SECOND_NS)


def _read(connection: NativeServerConnection, data: bytes) -> None:
    """The socket of the connection has read these bytes."""
    connection.get_buffer(-1)[: len(data)] = data
    connection.buffer_updated(len(data))


async def _native(raw: Raw, broker: Broker) -> NativeServerConnection:
    raw.write(native.frame(Kind.ASK, {"ask": "ping"}, first=1))
    await raw.read()
    (connection,) = (one for one in broker.connections if isinstance(one, NativeServerConnection))
    return connection


@pytest.mark.parametrize("frames", [1, 5, 100])
@pytest.mark.parametrize(("much", "contended"), [(True, True), (True, False), (False, True)])
@in_loop
async def test_frames_wait_only_if_the_client_used_much_and_others_wait(
    frames: int, much: bool, contended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not much:
        monkeypatch.setattr(TimeShare, "is_used_up", lambda _share, _now_ns: False)
    async with running(local()) as (broker, (address,)):
        raw = await Raw.connect(address)
        connection = await _native(raw, broker)
        _use_much(connection._share)
        order = _busy(broker) if contended else []
        monkeypatch.setattr(connection, "answer", lambda effect: order.append(str(effect.number)))
        _read(connection, b"".join(native.frame(Kind.ASK, {"ask": "ping"}, first=n) for n in range(frames)))
        assert bool(order) is not (much and contended)
        while len(order) < frames + contended:
            await asyncio.sleep(0)
        answers = [str(n) for n in range(frames)]
        assert [entry for entry in order if entry != "slice"] == answers
        if much and contended:
            assert order[0] == "slice"


@in_loop
async def test_frames_of_later_reads_follow_those_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(local()) as (broker, (address,)):
        raw = await Raw.connect(address)
        connection = await _native(raw, broker)
        _use_much(connection._share)
        order = _busy(broker)
        monkeypatch.setattr(connection, "answer", lambda effect: order.append(str(effect.number)))
        for number in range(3):
            _read(connection, native.frame(Kind.ASK, {"ask": "ping"}, first=number))
        while len(order) < 4:
            await asyncio.sleep(0)
        assert order == ["slice", "0", "1", "2"]


async def _stomp(broker: Broker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> StompServerConnection:
    writer.write(frame("CONNECT", **{"accept-version": "1.2", "host": "h"}))
    await reader.readuntil(b"\0")
    (inner,) = (one for one in broker.connections if isinstance(one, InProcessConnection))
    transport = inner._frame_transport
    assert isinstance(transport, AdapterTransport)
    assert isinstance(transport._connection, StompServerConnection)
    return transport._connection


@in_loop
async def test_stomp_frames_of_one_read_are_handled_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn has time for one of them."""
    async with running(local()) as (broker, (address,)):
        reader, writer = await asyncio.open_connection(address.host, address.port)
        connection = await _stomp(broker, reader, writer)
        monkeypatch.setattr(limits, "TURN_NS", -1)
        connection.data_received(b"".join(frame("BEGIN", transaction=str(n), receipt=str(n)) for n in range(9)))
        assert connection._is_due
        for n in range(9):
            assert f"receipt-id:{n}\n".encode() in await reader.readuntil(b"\0")
        writer.close()


@in_loop
async def test_stomp_frames_wait_too() -> None:
    async with running(local()) as (broker, (address,)):
        reader, writer = await asyncio.open_connection(address.host, address.port)
        connection = await _stomp(broker, reader, writer)
        _use_much(connection._share)
        order = _busy(broker)
        connection.data_received(frame("SEND", destination="/queue/q", receipt="1"))
        sends = connection._bytes
        assert sends
        assert b"RECEIPT" in await reader.readuntil(b"\0")
        assert order == ["slice"]
        assert not sends
        writer.close()
