"""Observers never change or break what they observe: with and without traces clients get the same bytes."""

import asyncio
import itertools
import json
import logging
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from broker.server import raw_client
from broker.server.raw_client import Raw, in_loop, local, traced
from broker.server.stomp.stomp_clients import frame as stomp_frame
from broker.server.stomp.test_fuzz import Sayings, Socket
from broker.server.trace.traced_clients import one_of, recorded
from hostile.frames import MESSAGES, OPENING, absurd, sensible
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.native.connection import NativeServerConnection
from mqlab.broker.server.startup import running
from mqlab.broker.server.stomp.connection import StompServerConnection
from mqlab.broker.server.trace import activity_trace, hooks, operation_recorder, recording
from mqlab.broker.server.trace.isolation import ObserverErrors, isolated
from mqlab.wire.native import frames as native
from mqlab.wire.native.frames import Flag, Kind

# So many are one test.
SEQUENCES = 10
BEGINS = range(0, 1000 if os.environ.get("MQLAB_TORTURE") else SEQUENCES, SEQUENCES)
STEPS = 150


def hello(chance: random.Random) -> bytes:
    said = {"version": native.VERSION, "application": chance.choice(("", "App")), "client_id": "c", "take_over": True}
    return native.frame(Kind.HELLO, said)


class Client:
    """A connection without a socket: what it is sent is there as soon as it has sent something."""

    def __init__(self, broker: Broker, *, stomp: bool) -> None:
        self.socket = Socket()
        self.protocol: StompServerConnection | NativeServerConnection
        if stomp:
            self.protocol = StompServerConnection(broker)
            self.feed = self.protocol.data_received
        else:
            self.protocol = NativeServerConnection(broker)
            self.feed = self.protocol.bytes_received
        self.protocol.connection_made(self.socket)

    def lose(self) -> None:
        self.protocol.connection_lost(None)


async def play(broker: Broker, seed: int, clock: Callable[[int], None]) -> list[bytes]:
    """What the clients of one seed are sent, step by step."""
    chance, heard, tokens = random.Random(seed), [], itertools.count()
    broker.core.context.new_token = lambda: f"{next(tokens):032x}"
    clients: dict[int, Client] = {}
    sayings: dict[int, Sayings] = {}
    for step in range(STEPS):
        clock(step)
        number = chance.randrange(4)
        client = clients.get(number)
        if client is None or not client.socket.open or chance.random() < 0.01:
            if client is not None:
                client.lose()
            client = clients[number] = Client(broker, stomp=number == 3)
            sayings[number] = Sayings(chance, "s")
            first = stomp_frame("CONNECT", **{"accept-version": "1.2"}) if number == 3 else hello(chance) + OPENING
            client.feed(first)
        elif number == 3:
            client.feed(sayings[number].next())
        else:
            client.feed(absurd(chance) if chance.random() < 0.1 else sensible(chance))
        if step % 30 == 0:
            broker.activity.flush()
        heard += [one.socket.written for one in clients.values()]
        for one in clients.values():
            one.socket.written = b""
    for one in clients.values():
        one.lose()
    return heard


class Time:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_800_000_000_000_000_000
        for name, module in [*sys.modules.items()]:
            if name.startswith("mqlab.broker.") and hasattr(module, "time_ns") and ".tracing" not in name:
                monkeypatch.setattr(module, "time_ns", lambda: self.now)

    def at(self, step: int) -> None:
        self.now = 1_800_000_000_000_000_000 + step * 1_000_000


@pytest.mark.parametrize("begin", BEGINS)
@in_loop
async def test_clients_get_the_same_bytes_with_and_without_traces(
    begin: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    record_property: Callable[[str, object], None],
) -> None:  # fmt: skip
    caplog.set_level(logging.ERROR)
    time = Time(monkeypatch)
    for seed in range(begin, begin + SEQUENCES):
        plain = Broker(local(monitoring="off"))
        watched = Broker(local(**traced(tmp_path)))
        without, within = await play(plain, seed, time.at), await play(watched, seed, time.at)
        assert without == within, f"seed {seed}"
        assert any(without)
        assert watched.activity.records > 100
        assert watched.observer_errors.count == 0
        assert not plain.failure.done()
        assert not watched.failure.done()
        await plain.close()
        await watched.close()
        assert not [one for one in caplog.records if one.exc_info], f"seed {seed}: {caplog.text}"
        record_property("sequences", 1)


@pytest.mark.parametrize("level", ["low", "high"])
@in_loop
async def test_one_frame_does_not_end_the_trace(level: str) -> None:
    async with running(local(trace=level)) as (broker, (address,)):
        raw = await Raw.connect(address)
        await raw.open_session()
        await raw.open_producer("queue:a")
        await raw.open_consumer("queue:a")
        raw.send(b"one", b"two")
        await raw.read_until(Kind.DELIVER)
        raw.write(native.header(Kind.ACKNOWLEDGE, link=2, first=2**64 - 1))
        raw.write(native.frame(Kind.ASK, {"ask": "ping"}, first=2**64 - 1))
        await raw.read_until(Kind.ANSWER)
        found = await recorded(address, "")
        # What it covers is what was delivered, whatever the client says.
        assert one_of(found, "acknowledge")["messages"] == 2
        if level == "high":
            assert json.loads(one_of(found, "acknowledge")["detail"])["first"] == 2**63 - 1
        raw.send(b"three", first=3)
        await raw.read_until(Kind.DELIVER)
        assert one_of(await recorded(address, ""), "put")["messages"] == 1
        assert broker.observer_errors.count == 0


@pytest.mark.parametrize("kind", [Kind.SEND, Kind.ACKNOWLEDGE, Kind.RECEIVE, Kind.REQUEST, Kind.ACKNOWLEDGE_ROWS])
@pytest.mark.parametrize("link", [1, 2, 99])
@in_loop
async def test_a_frame_for_the_wrong_link_is_refused_as_without_a_trace(
    kind: Kind, link: int, caplog: pytest.LogCaptureFixture
) -> None:
    said = []
    for level in ("off", "high"):
        async with running(local(trace=level)) as (broker, (address,)):
            raw = await Raw.connect(address)
            await raw.open_session()
            await raw.open_producer("queue:a")
            await raw.open_consumer("queue:a")
            data = bytes(MESSAGES[2].data)
            flags, amount = MESSAGES[2].form, {1: 99, 2: 1, 99: 2}[link] if kind == Kind.REQUEST else 1
            # To the right link a frame of the wrong form, to the wrong link a good one.
            raw.write(native.header(kind, flags=flags, link=link, first=1, amount=amount, length=len(data)) + data)
            raw.write(native.header(Kind.COMMIT, session=77))
            said.append(await raw.is_ended())
            assert broker.observer_errors.count == 0
    assert said[0] == said[1]
    assert not [one for one in caplog.records if one.exc_info]


def fail(*_: object, **__: object) -> None:
    raise ZeroDivisionError("an observer")


@pytest.mark.parametrize(
    ("module", "name"),
    [(recording, "kept_message"), (recording, "destination_of"), (operation_recorder, "time_ns"), (hooks, "time_ns"),
     (activity_trace, "encoded"), (recording, "RecordLabels"), (activity_trace, "OperationRecorder")],
)  # fmt: skip
@in_loop
async def test_an_error_inside_an_observer_is_counted_and_logged_and_nothing_else(
    module: ModuleType, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, name, fail)
    async with running(local(trace="high")) as (broker, (address,)):
        raw = await Raw.connect(address)
        await raw.open_session()
        await raw.open_producer("queue:a")
        await raw.open_consumer("queue:a")
        for number in range(1, 20):
            raw.send(b"x", first=number, flags=Flag.CONFIRM)
            await raw.read_until(Kind.DELIVER)
            raw.write(native.header(Kind.ACKNOWLEDGE, link=2, first=number, amount=1))
        broker.activity.flush()
        assert broker.activity.status()["errors"] == broker.observer_errors.count > 0
        raw_client.opened.remove(raw)
        await raw.close()
        while broker.connections:
            await asyncio.sleep(0)
        assert not broker.failure.done()
        assert broker.core.destinations.queues["a"].messages == 0
    # Each time twice as many are passed over.
    logged = [one for one in caplog.records if one.exc_info]
    assert 0 < len(logged) <= 10


@in_loop
async def test_records_that_cannot_be_encoded_are_lost_and_the_next_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(local(trace="low")) as (broker, (address,)):
        raw = await Raw.connect(address)
        with monkeypatch.context() as patched:
            patched.setattr(activity_trace, "encoded", fail)
            broker.activity.flush()
        await raw.open_session()
        assert one_of(await recorded(address, ""), "open")["code"] == "ok"
        assert broker.observer_errors.count == 1


@in_loop
async def test_records_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity_trace, "MOST", 3)
    monkeypatch.setattr(activity_trace, "_MOST_WAITING", 2)
    async with running(local(trace="low")) as (broker, (address,)):
        raw = await Raw.connect(address)
        await raw.open_session()
        raw.write(native.frame(Kind.ASK, {"ask": "ping"}, first=1) * 200)
        for _ in range(200):
            await raw.read_until(Kind.ANSWER)
        while broker.activity._records_waiting:
            await asyncio.sleep(0.01)
        assert broker.activity.dropped > 20
        assert broker.activity.records < 150


def test_the_log_does_not_grow_with_the_errors(caplog: pytest.LogCaptureFixture) -> None:
    errors = ObserverErrors()
    for _ in range(1000):
        errors.caught(ValueError("x"))
    assert errors.count == 1000
    assert len(caplog.records) == 10


def test_a_hook_that_fails_is_counted_and_raises_nothing() -> None:
    class Failing:
        def __init__(self) -> None:
            self.errors = ObserverErrors()

        @isolated
        def see(self, number: int) -> None:
            raise ValueError(number)

    failing = Failing()
    failing.see(1)
    failing.see(2)
    assert failing.errors.count == 2
