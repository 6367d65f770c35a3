"""An agent's commands, with a driver that does what a test wants: faults that no real system shows on demand."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal

import pytest
import uvloop

from mqlab.drivers import (
    DRIVERS,
    Driver,
    DriverConnection,
    DriverError,
    DriverRequester,
    ReceivedBatch,
    Receiver,
    ReceiverOptions,
    Responder,
    Sender,
)
from mqlab.drivers.api import Matrix, MessageHeaders, Properties
from mqlab.events.folder import RunFolder
from mqlab.json_values import JsonObject
from mqlab.runner.agents import process
from mqlab.runner.agents.assignment import Assignment, roles_of
from mqlab.runner.agents.bodies import BodyMaker
from mqlab.runner.agents.launcher import start_agent
from mqlab.runner.agents.process import Agent
from mqlab.study import Point
from mqlab.wire.native.bodies import decode, encode
from runner.lab import rows
from runner.points import point


def succeeds() -> None: ...
async def commits() -> None: ...


class FakeSystem:
    """Passes on what is sent; a test replaces what should go wrong."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.applications: list[str] = []
        self.messages: asyncio.Queue[list[bytes]] = asyncio.Queue()
        self.sending: Callable[[], None] = succeeds
        self.receiving: Callable[[], None] = succeeds
        self.closing_the_sender: Callable[[], None] = succeeds
        self.closing_the_connection: Callable[[], None] = succeeds
        self.committing_receipts: Callable[[], Awaitable[None]] = commits


class FakeDriver(Driver):
    system: FakeSystem
    max_send_messages = 4

    async def connect(self, application: str = "") -> DriverConnection:
        self.system.applications.append(application)
        self.system.calls.append("connect")
        return FakeConnection(self.system)


class FakeConnection(DriverConnection):
    def __init__(self, system: FakeSystem) -> None:
        self._system = system

    async def sender(self, destination: str, *, persistent: bool, transacted: bool) -> Sender:
        self._system.calls.append(f"sender {destination}{' persistent' if persistent else ''}")
        return FakeSender(self._system, transacted)

    async def receiver(self, destination: str, how: ReceiverOptions) -> Receiver:
        self._system.calls.append(f"receiver {destination} {how.acknowledge}")
        assert how.prefetch > 0
        return FakeReceiver(self._system)

    async def requester(self, destination: str, reply_to: str, *, persistent: bool) -> DriverRequester:
        raise DriverError(f"no requester to {destination}, {reply_to}, {persistent}")

    async def responder(self, destination: str, *, prefetch: int, persistent: bool) -> Responder:
        raise DriverError(f"no responder at {destination}, {prefetch}, {persistent}")

    async def subscribe(self, topic: str, how: ReceiverOptions) -> None:
        self._system.calls.append(f"subscribe {topic} {how.durable}")

    async def unsubscribe(self, durable: str) -> None:
        self._system.calls.append(f"unsubscribe {durable}")

    async def preload(self, queue: str, bodies: Matrix, *, persistent: bool) -> None:
        self._system.calls.append(f"preload {queue} {len(bodies)}{' persistent' if persistent else ''}")

    async def close(self) -> None:
        self._system.calls.append("close")
        self._system.closing_the_connection()


class FakeSender(Sender):
    def __init__(self, system: FakeSystem, transacted: bool) -> None:
        self._system = system
        self._transacted = transacted
        self._open: list[bytes] = []

    async def send(
        self, bodies: Matrix, *, wait: bool, properties: Properties | None = None, headers: MessageHeaders | None = None
    ) -> None:
        assert (properties, headers) == (None, None)
        await asyncio.sleep(0.001)
        assert not (wait and self._transacted)
        self._system.sending()
        self._open += [row.tobytes() for row in bodies]
        if not self._transacted:
            self._pass_on()

    async def commit(self) -> None:
        self._pass_on()

    async def close(self) -> None:
        self._system.closing_the_sender()

    def _pass_on(self) -> None:
        self._system.messages.put_nowait(self._open)
        self._open = []


class FakeReceiver(Receiver):
    def __init__(self, system: FakeSystem) -> None:
        self._system = system

    async def receive(self) -> ReceivedBatch:
        bodies = await self._system.messages.get()
        self._system.receiving()
        return ReceivedBatch(decode(encode(bodies)), False)

    async def commit(self) -> None:
        await self._system.committing_receipts()

    async def close(self) -> None: ...


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeSystem:
    system = FakeSystem()
    monkeypatch.setattr(FakeDriver, "system", system, raising=False)
    monkeypatch.setitem(DRIVERS, "fake", FakeDriver)
    return system


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path, "test")


def prepared(folder: RunFolder | None, chosen: Point) -> JsonObject:
    path = None if folder is None else str(folder.path)
    return Assignment(1, 1, chosen, "fake", "somewhere", tuple(roles_of(chosen)), path).to_json()


def played(folder: RunFolder | None, chosen: Point, *, finish_after: float | None = None) -> list[JsonObject]:
    """The answers to prepare, start, report_progress and finish; `finish_after`: start is cut short, as by Ctrl-C."""

    async def main() -> list[JsonObject]:
        agent = Agent()
        answers = [await agent.execute({"command": "prepare", "assignment": prepared(folder, chosen)})]
        if "error" not in answers[0]:
            starting = asyncio.ensure_future(agent.execute({"command": "start", "start": time.monotonic_ns()}))
            if finish_after is not None:
                await asyncio.sleep(finish_after)
                starting.cancel()
                await asyncio.gather(starting, return_exceptions=True)
            else:
                answers.append(await starting)
                await asyncio.sleep(0.05)
                answers.append(await agent.execute({"command": "report_progress"}))
        return [*answers, await agent.execute({"command": "finish"})]

    return uvloop.run(asyncio.wait_for(main(), 240))


def fails(error: Exception, after: int = 0) -> Callable[[], None]:
    """Goes well so often, then raises."""
    left = [after]

    def call() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise error

    return call


SHORT = point(batch=4, measure=0.1)


def test_a_run_in_four_answers(fake: FakeSystem, folder: RunFolder) -> None:
    ready, started, received, finished = played(folder, SHORT)
    assert ready == {"ready": True}
    total = sum(row["count"] for row in rows(folder, "sends"))
    assert started == {"sent": {0: total}}
    assert received == {"received": [[0, 0, total]], "moved": 2 * total}
    assert 0 < finished["counted_sent"] < total
    assert finished["counted_received"] == pytest.approx(finished["counted_sent"], abs=8)
    assert finished["counted_round_trips"] == 0
    assert finished["last_sent"] > max(row["t_sent"] for row in rows(folder, "sends"))
    assert finished["last_received"] == max(row["t_received"] for row in rows(folder, "receipts"))
    assert sum(row["count"] for row in rows(folder, "receipts")) == total
    assert fake.calls[-1] == "close"


def test_without_a_folder_nothing_is_recorded_and_the_counts_are_the_same(fake: FakeSystem, tmp_path: Path) -> None:
    _, started, received, _ = played(None, SHORT)
    assert received["received"] == [[0, 0, started["sent"][0]]]
    assert [*tmp_path.rglob("*.parquet")] == []
    assert fake.calls


def test_an_agent_with_consumers_alone_writes_events_while_the_run_is_followed(
    fake: FakeSystem, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_ROLL_SECONDS", 0.001)
    (folder.path / ".follow-1").mkdir()
    consumers = tuple(role for role in roles_of(SHORT) if role.role == "consumer")
    assignment = Assignment(1, 1, SHORT, "fake", "somewhere", consumers, str(folder.path)).to_json()

    async def main() -> None:
        agent = Agent()
        await agent.execute({"command": "prepare", "assignment": assignment})
        await agent.execute({"command": "start", "start": time.monotonic_ns()})
        fake.messages.put_nowait([row.tobytes() for row in BodyMaker(0, SHORT.size, 4).make(0, 4)])
        while not folder.event_files("receipts"):
            await asyncio.sleep(0.001)
        await agent.execute({"command": "finish"})

    uvloop.run(asyncio.wait_for(main(), 240))
    assert sum(row["count"] for row in rows(folder, "receipts")) == 4


@pytest.mark.parametrize(("connections", "number"), [("each", 5), ("shared", 1)])
def test_consumers_are_there_before_any_producer(
    fake: FakeSystem, folder: RunFolder, connections: Literal["each", "shared"], number: int
) -> None:
    played(folder, point(batch=4, measure=0.01, producers=2, consumers=3, connections=connections))
    assert fake.calls.count("connect") == fake.calls.count("close") == number
    opened = [call.split()[0] for call in fake.calls if call.startswith(("sender", "receiver"))]
    assert opened == ["receiver"] * 3 + ["sender"] * 2


class TestFaults:
    def test_a_send_that_fails_is_unknown_and_the_run_says_so(self, fake: FakeSystem, folder: RunFolder) -> None:
        fake.sending = fails(DriverError("no more"), after=3)
        _, started, _, _ = played(folder, point(batch=4, send="confirmed"))
        assert started["error"] == "no more"
        assert started["sent"] == {0: 12}
        outcomes = [(row["first_seq"], row["outcome"]) for row in rows(folder, "sends")]
        assert outcomes == [(0, "confirmed"), (4, "confirmed"), (8, "confirmed"), (12, "unknown")]

    def test_a_free_send_that_fails_is_recorded_as_well(self, fake: FakeSystem, folder: RunFolder) -> None:
        """It may have reached the system before it failed: if it arrives, it must not be unexpected."""
        fake.sending = fails(DriverError("no more"), after=3)
        _, started, _, _ = played(folder, point(batch=4))
        assert started["error"] == "no more"
        outcomes = [(row["first_seq"], row["outcome"]) for row in rows(folder, "sends")]
        assert outcomes == [(0, "unknown"), (4, "unknown"), (8, "unknown"), (12, "unknown")]

    def test_what_was_not_taken_by_the_end_is_not_confirmed(self, fake: FakeSystem, folder: RunFolder) -> None:
        fake.closing_the_sender = fails(DriverError("not all of it"))
        _, started, _, _ = played(folder, SHORT)
        assert started["error"] == "not all of it"
        assert {row["outcome"] for row in rows(folder, "sends")} == {"unknown"}

    @pytest.mark.parametrize("error", [DriverError("gone"), ValueError("gone")])
    def test_a_consumer_that_fails_does_not_fail_silently(
        self, fake: FakeSystem, folder: RunFolder, error: Exception
    ) -> None:
        """Whatever it is: taken for a quiet end, its messages would be called lost by the system."""
        fake.receiving = fails(error, after=3)
        _, _, received, finished = played(folder, SHORT)
        assert "gone" in received.get("error", "")
        assert "gone" in finished.get("error", "")
        assert len(rows(folder, "receipts")) == 3, "what it had received is kept"

    def test_a_body_that_is_none_of_ours_does_not_pass_silently(self, fake: FakeSystem, folder: RunFolder) -> None:
        def put_a_stranger() -> None:
            if fake.messages.empty():
                fake.messages.put_nowait([b"hello"])

        fake.receiving = put_a_stranger
        _, _, _, finished = played(folder, SHORT)
        assert finished.get("error")

    def test_a_connection_that_cannot_be_closed_costs_no_events(self, fake: FakeSystem, folder: RunFolder) -> None:
        fake.closing_the_connection = fails(DriverError("held back"))
        _, started, _, _ = played(folder, SHORT)
        assert sum(row["count"] for row in rows(folder, "sends")) == started["sent"][0]
        assert sum(row["count"] for row in rows(folder, "receipts")) == started["sent"][0]

    def test_a_system_that_cannot_be_reached(self, folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
        async def refused(_: Driver, _application: str) -> DriverConnection:
            raise DriverError("nobody listens")

        monkeypatch.setattr(FakeDriver, "connect", refused)
        monkeypatch.setitem(DRIVERS, "fake", FakeDriver)
        ready, finished = played(folder, SHORT)
        assert ready == {"error": "nobody listens"}
        assert finished["counted_received"] == finished["counted_sent"] == 0


class TestCutShort:
    def test_the_send_under_way_is_unknown(self, fake: FakeSystem, folder: RunFolder) -> None:
        played(folder, point(batch=4, send="confirmed", measure=60), finish_after=0.1)
        *before, last = sorted(rows(folder, "sends"), key=lambda row: int(row["first_seq"]))
        assert {row["outcome"] for row in before} == {"confirmed"}
        assert (last["outcome"], last["t_confirmed"]) == ("unknown", None)
        received = sum(row["count"] for row in rows(folder, "receipts"))
        assert last["first_seq"] <= received <= last["first_seq"] + 4
        assert fake.calls[-1] == "close"

    def test_receipts_whose_commit_was_cut_short_are_written_once(self, fake: FakeSystem, folder: RunFolder) -> None:
        commits = [0]

        async def slow() -> None:
            commits[0] += 1
            if commits[0] > 3:
                await asyncio.sleep(60)

        fake.committing_receipts = slow
        played(folder, point(transaction=4, batch=4, send="confirmed", measure=60), finish_after=0.2)
        receipts = rows(folder, "receipts")
        assert [(row["first_seq"], row["t_acknowledged"] is None) for row in receipts] == [
            (0, False), (4, False), (8, False), (12, True),
        ]  # fmt: skip


@pytest.mark.parametrize(("send", "most"), [("free", 2), ("confirmed", 10)])
def test_a_driver_gets_no_more_at_once_than_does_it_good_unless_each_batch_is_waited_for(
    fake: FakeSystem, folder: RunFolder, monkeypatch: pytest.MonkeyPatch, send: Literal["free", "confirmed"], most: int
) -> None:
    assert fake.calls == []
    monkeypatch.setattr(FakeDriver, "max_send_bytes", 2 * 12)
    played(folder, point(size=12, batch=10, send=send, messages=20))
    sent = rows(folder, "sends")
    assert sum(row["count"] for row in sent) == 20
    assert max(row["count"] for row in sent) == most


def test_an_agent_does_not_take_the_processor_from_what_it_measures() -> None:
    async def look() -> int:
        agent = await start_agent(1)
        try:
            # It answers, so it has begun.
            await agent.ask("clock")
            return os.sched_getscheduler(agent.pid)
        finally:
            await agent.stop()

    assert uvloop.run(look()) == os.SCHED_BATCH
