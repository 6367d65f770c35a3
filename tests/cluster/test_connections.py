"""Agents over connections, without Spark: the processes that stand for its tasks are started by the test.

Some of them have another clock, in a time namespace of their own, whose offset is known.
"""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Final

import numpy as np
import psutil
import pytest
import uvloop

from mqlab.cluster.barrier_stage import failure_reason
from mqlab.cluster.launcher import SparkLauncher, conductor_host
from mqlab.cluster.task import ConductorAddress
from mqlab.events.folder import RunFolder
from mqlab.pipeline.session import SparkTarget
from mqlab.runner.agents.launcher import AgentStartError
from mqlab.runner.broker_location import check_reachable
from mqlab.runner.conductor import Conductor, Progress, RunPlan
from mqlab.study import Point, load_study
from mqlab.systems import SystemFailedError, system
from mqlab.systems.external import ExternalRunning
from process_helpers import commands_with
from runner.lab import Once, Recount, check_delivery, columns, ignore, rows
from runner.points import point

_TASK: Final = """
import sys, uvloop
from mqlab.cluster.task import ConductorAddress, serve_conductor
uvloop.run(serve_conductor(ConductorAddress(sys.argv[1], int(sys.argv[2]), sys.argv[3]), int(sys.argv[4])))
"""
# Runs all commands of a list, and ends when they have ended.
_STAGE: Final = """
import json, subprocess, sys
for task in [subprocess.Popen(command) for command in json.loads(sys.argv[1])]:
    task.wait()
"""
SECOND: Final = 10**9
OFFSET_SECONDS: Final = 5000


def in_time_namespace() -> list[str]:
    """How a command gets a clock that is OFFSET_SECONDS ahead; the test is skipped where that is not allowed."""
    command = ["unshare", "--time", "--monotonic", str(OFFSET_SECONDS)]
    if not shutil.which("unshare") or subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user cannot make a time namespace")
    return command


def slow_way(conductor: ConductorAddress, delay_seconds: float) -> int:
    """A port that leads one agent to the conductor; its commands arrive late, its answers do not."""
    listener = socket.create_server((conductor.host, 0))

    def carry(source: socket.socket, target: socket.socket, seconds: float) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                time.sleep(seconds)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def connect() -> None:
        with (
            listener,
            listener.accept()[0] as agent,
            socket.create_connection((conductor.host, conductor.port)) as ours,
        ):
            late = Thread(target=carry, args=(ours, agent, delay_seconds), daemon=True)
            late.start()
            carry(agent, ours, 0.0)
            late.join()

    Thread(target=connect, daemon=True).start()
    return int(listener.getsockname()[1])


class Tasks(SparkLauncher):
    """Processes instead of the tasks of a stage.

    `before[number]` comes before the command of an agent; what agents of `delay_seconds` are sent is so much later.
    """

    def __init__(
        self, before: dict[int, list[str]] | None = None, delay_seconds: dict[int, float] | None = None
    ) -> None:
        super().__init__(SparkTarget("local[2]"))
        self.before = before or {}
        self.delay_seconds = delay_seconds or {}

    async def _start_stage(self, count: int, conductor: ConductorAddress) -> None:
        commands = []
        for number in range(1, count + 1):
            port = conductor.port
            if number in self.delay_seconds:
                port = slow_way(conductor, self.delay_seconds[number])
            arguments = (conductor.host, str(port), conductor.token, str(number))
            commands.append([*self.before.get(number, ()), sys.executable, "-c", _TASK, *arguments])
        self._stage = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _STAGE, json.dumps(commands), stdout=asyncio.subprocess.PIPE
        )


def conduct(folder: RunFolder, chosen: list[Point], launcher: Tasks, watch: Once | None = None) -> None:
    plan = RunPlan(
        load_study("jms-four-brokers"), "quick", chosen, [system("embedded")], 2, watch_noise=False, launcher=launcher
    )

    def seen(progress: Progress) -> None:
        (watch or ignore)(progress)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("mqlab.runner.conductor.combinations", lambda *_: [])
        uvloop.run(Conductor(plan, folder, seen).conduct())
    assert not commands_with("serve_conductor", psutil.Process().children(recursive=True))


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path, "test")


def test_agents_over_connections_play_several_runs(folder: RunFolder) -> None:
    launcher = Tasks()
    chosen = [point(name, producers=2, consumers=2, size=64, rate=2000.0, measure=0.3) for name in "AB"]
    conduct(folder, chosen, launcher)
    assert folder.meta()["hosts"] == [socket.gethostname()] * 2
    for run in rows(folder, "runs"):
        assert run["status"] == "complete", run["reason"]
        assert check_delivery(folder, run["run"], size=64) > 0
        Recount.of(folder, run["run"]).check_counts(run)
    # They are on this machine: their clock is ours, and the conductor samples them itself.
    assert {(row["offset"], row["error"]) for row in rows(folder, "clocks")} == {(0, 0)}
    assert {row["source"] for row in rows(folder, "samples")} >= {"broker", "agent-1", "agent-2"}
    assert not [*folder.events.glob(".*")]


def test_an_agent_with_another_clock_begins_with_the_others_and_its_latencies_are_right(folder: RunFolder) -> None:
    # The ways differ by 60 ms, which the measurement cannot know: it must count half of it as its error.
    launcher = Tasks({2: in_time_namespace()}, {2: 0.06})
    conduct(folder, [point("A", producers=1, consumers=1, size=64, rate=1000.0, measure=0.5)], launcher)
    (run,) = rows(folder, "runs")
    assert run["status"] == "complete", run["reason"]
    clocks = {row["agent"]: row for row in rows(folder, "clocks")}
    assert (clocks[1]["offset"], clocks[1]["error"]) == (0, 0)
    error = clocks[2]["error"]
    assert 0.03 * SECOND <= error < SECOND
    # The clock of the time namespace is ahead by exactly that.
    assert abs(clocks[2]["offset"] + OFFSET_SECONDS * SECOND) <= error
    # The producer is agent 1 and the consumer agent 2.
    sends, receipts = columns(folder, "sends"), columns(folder, "receipts")
    check_delivery(folder, 1, size=64)
    sent = np.repeat(sends["t_sent"], sends["count"])
    received = np.repeat(receipts["t_received"], receipts["count"]) + clocks[2]["offset"]
    latencies = received - sent
    assert (latencies >= -error).all()
    assert np.median(latencies) < 60 * SECOND
    # By the conductor's clock, what the agent counted as its measure phase is that of the run.
    (phase,) = rows(folder, "phases", phase="measure")
    within = (received >= phase["t_start"] - error) & (received < phase["t_end"] + error)
    assert 0 < run["counted_received"] <= within.sum()


def test_a_lost_agent_is_named_with_its_host_and_the_next_run_has_another(folder: RunFolder) -> None:
    launcher = Tasks()
    chosen = [point("A", size=64, rate=1000.0, measure=60), point("B", size=64, rate=1000.0, measure=0.3)]
    conduct(folder, chosen, launcher, Once("measure", lambda: os.kill(launcher.agents[0].pid, signal.SIGKILL)))
    first, second = rows(folder, "runs")
    assert first["status"] == "incomplete"
    assert f"agent 1 on {socket.gethostname()} ended in mid-run" in first["reason"]
    assert rows(folder, "receipts", run=1), "the other agent has written its events"
    assert second["status"] == "complete", second["reason"]


def test_a_run_folder_that_an_agent_cannot_write_ends_the_command_before_the_load(
    folder: RunFolder,
) -> None:
    if os.geteuid():
        pytest.skip("this user cannot mount")
    # The path of the run folder leads agent 2 to another file system.
    launcher = Tasks({2: ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs none {folder.path} && exec "$@"', "sh"]})
    host = socket.gethostname()
    with pytest.raises(AgentStartError, match=rf"agent 2 on {host} cannot write to the run folder.*No such file"):
        conduct(folder, [point("A")], launcher)
    assert not (folder.events / "runs").exists()


def test_only_agents_with_the_token_are_let_in(folder: RunFolder) -> None:
    greeted: list[bytes] = []

    class Intruded(Tasks):
        async def _start_stage(self, count: int, conductor: ConductorAddress) -> None:
            wrong = {"token": "x", "agent": 1, "host": "h", "pid": 1, "place": ["", "", "", ""]}
            for line in (json.dumps(wrong).encode(), b"hello", b"[]", b'{"agent": 1}'):
                reader, writer = await asyncio.open_connection(conductor.host, conductor.port)
                writer.write(line + b"\n")
                greeted.append(await reader.read())
                writer.close()
            await super()._start_stage(count, conductor)

    conduct(folder, [point("A", rate=1000.0, measure=0.3)], Intruded())
    assert greeted == [b""] * 4
    assert [run["status"] for run in rows(folder, "runs")] == ["complete"]


class _Agent:
    name = "agent 2 on far"

    def __init__(self, *, has_loopback: bool) -> None:
        self.has_loopback = has_loopback


@pytest.mark.parametrize(
    ("address", "changes", "words"),
    [
        ("tcp:127.0.0.1:7766", {}, "agent 2 on far cannot reach tcp:127.0.0.1:7766, the loopback of this machine"),
        ("unix:/tmp/x", {}, "cannot reach unix:/tmp/x"),
        ("tcp://localhost:61616", {}, "cannot reach tcp://localhost:61616"),
        ("tcp:192.0.2.1:7766", {}, ""),
        ("tcp://broker:61616", {}, ""),
        ("tcp:192.0.2.1:7766", {"faults": "cut at 1s for 1s"}, "the proxy for faults of the line"),
        ("", {"topology": "bindings"}, "topology bindings needs agents on this machine"),
    ],
)
def test_a_broker_that_agents_elsewhere_cannot_reach_is_refused(
    address: str, changes: dict[str, str], words: str
) -> None:
    chosen, running = point("A").model_copy(update=changes), ExternalRunning(address, {}) if address else None
    check_reachable(chosen, running, [_Agent(has_loopback=True)])  # type: ignore[list-item]
    elsewhere = [_Agent(has_loopback=True), _Agent(has_loopback=False)]
    if not words:
        check_reachable(chosen, running, elsewhere)  # type: ignore[arg-type]
        return
    with pytest.raises(SystemFailedError, match=words):
        check_reachable(chosen, running, elsewhere)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("x: [SPARK-24819]: Barrier execution mode does not allow ...", "there are fewer than 3 free cores"),
        ("Job aborted\nTraceback:\n  ModuleNotFoundError: No module named 'uvloop'\n\tat", "No module named 'uvloop'"),
        ("Job aborted: ExecutorLostFailure (executor 1 exited)", "ExecutorLostFailure"),
        ("something else", "something else"),
        ("", "the stage failed"),
    ],
)
def test_the_reason_of_a_failed_stage(said: str, reason: str) -> None:
    assert reason in failure_reason(said, 3)


@pytest.mark.parametrize(
    ("master", "settings", "host"),
    [
        ("spark://127.0.0.1:7077", {}, "127.0.0.1"),
        ("spark://127.0.0.1:7077,127.0.0.2:7077", {}, "127.0.0.1"),
        ("local[2]", {}, "127.0.0.1"),
        ("yarn", {}, socket.gethostname()),
        ("spark://elsewhere:7077", {"spark.driver.host": "192.0.2.7"}, "192.0.2.7"),
    ],
)
def test_the_agents_find_the_conductor_as_the_executors_find_the_driver(
    master: str, settings: dict[str, str], host: str
) -> None:
    assert conductor_host(SparkTarget(master, settings)) == host
