"""What breaks in the middle of a run makes that run incomplete, with the reason; those after it are as good as ever."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import psutil
import pytest
import uvloop

from mqlab.events.folder import RunFolder
from mqlab.json_values import JsonObject
from mqlab.runner import run as running_one
from mqlab.runner.agents import channel, group, launcher
from mqlab.runner.agents.handle import AgentLostError
from mqlab.runner.agents.launcher import start_agent
from mqlab.runner.results.outcome import RunOutcome
from mqlab.runner.run import RunExecution
from mqlab.study import Point
from mqlab.systems import Running, SystemFailedError, system
from mqlab.systems.embedded import process as embedded
from runner.lab import Once, agents_running, brokers_running, check_delivery, conducted, rows
from runner.points import LONG, point

# As fast as it goes to a queue: when nobody takes the messages away, the producer is held back.
HELD_BACK = point("A", size=1024, batch=64, drain=1, least=2, most=2, measure=LONG)
PRODUCER, CONSUMER = 0, 1  # which of two agents


def signals(found: Callable[[], list[psutil.Process]], which: int, number: int) -> Callable[[], None]:
    return lambda: found()[which].send_signal(number)


def check_that_only_the_first_broke(folder: RunFolder, point: Point) -> str:
    """Returns the reason."""
    first, second = rows(folder, "runs")
    assert (first["run"], first["repetition"], first["status"]) == (1, 1, "incomplete")
    assert (second["run"], second["repetition"], second["status"], second["reason"]) == (2, 2, "complete", "")
    assert first["reason"]
    assert check_delivery(folder, 2, point.size) > 0
    assert folder.meta()["status"] == "complete"
    return str(first["reason"])


@pytest.mark.parametrize("which", [PRODUCER, CONSUMER])
def test_an_agent_is_killed(tmp_path: Path, which: int) -> None:
    kill = Once("measure", signals(agents_running, which, signal.SIGKILL))
    folder = conducted(tmp_path, [HELD_BACK], watch=kill)
    assert f"agent {which + 1}" in check_that_only_the_first_broke(folder, HELD_BACK)


def test_what_the_other_agent_recorded_is_kept(tmp_path: Path) -> None:
    chosen = point("A", size=1024, batch=64, drain=2, domain="topic")
    folder = conducted(tmp_path, [chosen], watch=Once("drain", signals(agents_running, CONSUMER, signal.SIGKILL)))
    assert [run["status"] for run in rows(folder, "runs")] == ["incomplete"]
    sent = rows(folder, "sends", run=1)
    assert {row["outcome"] for row in sent} == {"confirmed"}
    assert rows(folder, "receipts", run=1) == []


def test_the_broker_is_killed(tmp_path: Path) -> None:
    chosen = point("A", destinations=2, producers=2, consumers=2, size=1024, persistent=True, send="confirmed", batch=1,
                   drain=2, least=2, most=2, measure=LONG)  # fmt: skip
    folder = conducted(tmp_path, [chosen], watch=Once("measure", signals(brokers_running, 0, signal.SIGKILL)))
    check_that_only_the_first_broke(folder, chosen)
    sends = rows(folder, "sends", run=1)
    # The last send of each producer got no answer, and nothing is claimed about it.
    unknown = [row for row in sends if row["outcome"] == "unknown"]
    assert sorted(row["producer"] for row in unknown) == [0, 1]
    assert all(row["t_confirmed"] is None for row in unknown)
    assert {row["outcome"] for row in sends} == {"unknown", "confirmed"}


def test_the_broker_is_killed_under_producers_that_do_not_wait(tmp_path: Path) -> None:
    kill = Once("measure", signals(brokers_running, 0, signal.SIGKILL))
    folder = conducted(tmp_path, [HELD_BACK], watch=kill)
    check_that_only_the_first_broke(folder, HELD_BACK)
    assert {row["outcome"] for row in rows(folder, "sends", run=1)} == {"unknown"}


class TestWhatHangs:
    """A system or an agent that stops answering must not stop the lab.

    It stops before the first message: however late the signal comes, the work cannot be done by then.
    """

    @pytest.fixture(autouse=True)
    def _short_patience(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for module, name in (
            (group, "_FINISH_SECONDS"), (running_one, "_GRACE_SECONDS"), (embedded, "_STOP_SECONDS"),
            (channel, "_STOP_SECONDS"), (launcher, "_ALIVE_SECONDS"),
        ):  # fmt: skip
            assert hasattr(module, name)
            monkeypatch.setattr(module, name, 1.0)

    def test_a_frozen_broker(self, tmp_path: Path) -> None:
        freeze = Once("warm-up", signals(brokers_running, 0, signal.SIGSTOP))
        folder = conducted(tmp_path, [HELD_BACK], watch=freeze, patience=240)
        check_that_only_the_first_broke(folder, HELD_BACK)

    @pytest.mark.parametrize("which", [PRODUCER, CONSUMER])
    def test_a_frozen_agent(self, tmp_path: Path, which: int) -> None:
        freeze = Once("warm-up", signals(agents_running, which, signal.SIGSTOP))
        folder = conducted(tmp_path, [HELD_BACK], watch=freeze, patience=240)
        check_that_only_the_first_broke(folder, HELD_BACK)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0.01)


class TestASystemThatDoesNotStart:
    SETTING = "embedded:file_trace=/no/such/folder/trace"

    def test_the_reason_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(SystemFailedError) as caught:
            conducted(tmp_path, [point()], systems=[self.SETTING])
        assert "/no/such/folder" in str(caught.value), "its log is gone with its data: the reason must be in the words"
        assert "\n" not in str(caught.value)

    def test_what_there_is_is_kept_and_marked(self, tmp_path: Path) -> None:
        with pytest.raises(SystemFailedError):
            conducted(tmp_path, [point()], systems=[self.SETTING])
        (path,) = tmp_path.iterdir()
        folder = RunFolder.open(path)
        assert (folder.meta()["status"], bool(folder.meta()["finished"])) == ("incomplete", True)
        assert [(run["system"], run["status"]) for run in rows(folder, "runs")] == [(self.SETTING, "incomplete")]

    def test_interrupted_while_it_starts_it_is_gone(self, tmp_path: Path) -> None:
        async def interrupted() -> None:
            starting = asyncio.ensure_future(system("embedded").start(tmp_path / "data"))
            await until(brokers_running)
            started = brokers_running()
            starting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await starting
            # It may take a moment to end, but nobody else will see to it. A zombie still counts as running: the event
            # loop must learn of the end before it closes.
            await until(lambda: not any(process.is_running() for process in started))

        try:
            uvloop.run(interrupted())
        finally:
            for process in brokers_running():
                process.kill()


class TestInterrupted:
    @pytest.mark.parametrize("send", ["free", "confirmed"])
    def test_in_the_middle_of_a_run(self, tmp_path: Path, send: Literal["free", "confirmed"]) -> None:
        chosen = point("A", producers=2, consumers=2, size=1024, batch=16, send=send, measure=60)
        with pytest.raises(asyncio.CancelledError):
            conducted(tmp_path, [chosen], interrupt_in="measure")
        (path,) = tmp_path.iterdir()
        folder = RunFolder.open(path)
        assert folder.meta()["status"] == "incomplete"
        assert folder.meta()["finished"]
        assert not [*path.glob(".systems*")]
        (run,) = rows(folder, "runs")
        assert (run["status"], run["reason"]) == ("incomplete", "interrupted")
        sends, receipts = rows(folder, "sends"), rows(folder, "receipts")
        assert sends, "what was recorded is kept"
        assert receipts
        assert {row["outcome"] for row in sends} <= {"unknown", "confirmed"}
        # What arrived was sent: an interrupted send is recorded as well.
        highest = {p: max(r["first_seq"] + r["count"] for r in sends if r["producer"] == p) for p in (0, 1)}
        assert all(row["first_seq"] + row["count"] <= highest[row["producer"]] for row in receipts)

    def test_while_it_prepares(self, tmp_path: Path) -> None:
        with pytest.raises(asyncio.CancelledError):
            conducted(tmp_path, [point("A", measure=60)], interrupt_in="prepare")
        (path,) = tmp_path.iterdir()
        assert RunFolder.open(path).meta()["status"] == "incomplete"


def test_an_agent_that_died_between_two_runs_makes_the_next_incomplete(tmp_path: Path) -> None:
    """And not the whole study."""
    folder = RunFolder.create(tmp_path, "test")
    under_test = system("embedded")

    async def play() -> RunOutcome:
        both = [await start_agent(number) for number in (1, 2)]
        running: Running = await under_test.start(tmp_path / "data")
        try:
            dead = psutil.Process(both[0].pid)
            dead.kill()
            await until(lambda: not dead.is_running())
            return await RunExecution(1, "study", point(), under_test, 1, folder, both, lambda *_: None).play(running)
        finally:
            await running.stop()
            for agent in both:
                await agent.stop()

    outcome = uvloop.run(play())
    assert outcome.status == "incomplete"
    assert "agent 1" in outcome.reason


class TestTheConductorsSideOfAnAgent:
    """With agents that are a few lines of shell."""

    def ask(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> JsonObject:
        program = tmp_path / "agent"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setattr("mqlab.runner.agents.channel.sys.executable", str(program))

        async def asked() -> JsonObject:
            agent = await start_agent(3)
            try:
                async with asyncio.timeout(120):
                    return await agent.ask("received")
            finally:
                await agent.stop()

        return uvloop.run(asked())

    def test_an_answer_may_be_long(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Some thousand destinations make an answer of some hundred thousand bytes."""
        script = 'read line; printf \'{"reply_to": 1, "x": "%s"}\\n\' $(head -c 300000 /dev/zero | tr \'\\0\' x); cat'
        assert self.ask(tmp_path, monkeypatch, script) == {"x": "x" * 300_000}

    @pytest.mark.parametrize("script", ["exit 0", "read line; exit 3", "read line; echo '{\"to\": 7}'"])
    def test_one_that_ends_without_an_answer_is_lost(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
    ) -> None:
        with pytest.raises(AgentLostError, match="agent 3"):
            self.ask(tmp_path, monkeypatch, script)

    def test_one_that_talks_nonsense_is_lost(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(AgentLostError, match="agent 3"):
            self.ask(tmp_path, monkeypatch, "read line; echo hello; exec cat")
