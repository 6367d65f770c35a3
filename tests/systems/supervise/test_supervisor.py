"""Nothing of a system outlives the lab, however the lab ends; and what it used is known to the last."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import uvloop

from mqlab.systems.supervise.supervised_process import SupervisedProcess
from systems.fakes import WITH_A_DAEMON

# A lab that has started a system with a daemon, and does nothing more. argv: folder
LAB = """
import asyncio, sys
from pathlib import Path
from systems.fakes import WITH_A_DAEMON, fake

async def main():
    running = await fake(WITH_A_DAEMON).start(Path(sys.argv[1]) / "data")
    print(running.pid, flush=True)
    await asyncio.sleep(1000)

asyncio.run(main())
"""
# A child takes a second of CPU, longer than it takes to be noticed, and ends; the command goes on.
# argv: a file that says the child is gone
SPENDS = """
import os, sys, time
if os.fork() == 0:
    while time.process_time() < 1.2:
        pass
    os._exit(0)
{wait}
open(sys.argv[1], "w").close()
time.sleep(1000)
"""
WAITS = "os.wait()"
# Nobody gets to know what its children have used.
IGNORES = """
import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
try:
    os.wait()
except ChildProcessError:
    pass
"""


def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_when_the_lab_is_gone_everything_is(tmp_path: Path, end: signal.Signals) -> None:
    tests = Path(__file__).parents[2]
    lab = subprocess.Popen(
        [sys.executable, "-c", LAB, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        cwd=tests, start_new_session=True,
    )  # fmt: skip
    assert lab.stdout is not None
    with lab.stdout:
        supervisor = psutil.Process(int(lab.stdout.readline()))
    until((tmp_path / "data" / "pid").exists)
    below = supervisor.children(recursive=True)
    daemon = psutil.Process(int((tmp_path / "data" / "pid").read_text()))
    assert daemon in below
    assert daemon.ppid() == supervisor.pid, "who has lost its parent belongs to the supervisor"
    lab.send_signal(end)
    lab.wait(240)
    until(lambda: not any(_alive(one) for one in (supervisor, *below)))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_the_keeper_goes_only_when_it_is_meant(tmp_path: Path, number: signal.Signals) -> None:
    async def main() -> None:
        process = await SupervisedProcess.start(
            [sys.executable, "-c", WITH_A_DAEMON, "0", str(tmp_path / "pid")], tmp_path / "log"
        )
        while not (tmp_path / "pid").exists():
            await asyncio.sleep(0.01)
        psutil.Process(process.pid).send_signal(number)
        for _ in range(3):
            await asyncio.sleep(0.05)
            assert _alive(psutil.Process(process.pid))
        psutil.Process(process.pid).send_signal(signal.SIGTERM)
        while not process.ended:
            await asyncio.sleep(0.01)
        assert process.ended == "it was ended"
        await process.stop()
        await process.stop()

    uvloop.run(asyncio.wait_for(main(), 240))


@pytest.mark.parametrize("wait", [WAITS, IGNORES])
def test_what_the_dead_have_used_is_not_forgotten(tmp_path: Path, wait: str) -> None:
    async def main() -> None:
        gone = tmp_path / "gone"
        process = await SupervisedProcess.start(
            [sys.executable, "-c", SPENDS.format(wait=wait), str(gone)], tmp_path / "log"
        )
        try:
            seen = [0.0]
            while not gone.exists():
                seen.append(process.tree.usage().cpu_seconds)
                await asyncio.sleep(0.02)
            seen += [process.tree.usage().cpu_seconds for _ in range(3)]
            assert seen == sorted(seen), "no figure falls"
            # One look may be missed where nobody waits for the dead.
            assert seen[-1] > 0.4
        finally:
            await process.stop()

    uvloop.run(asyncio.wait_for(main(), 240))


def test_what_it_writes_is_counted(tmp_path: Path) -> None:
    writes = "import os, sys; os.write(1, b'x' * 5_000_000); os.fsync(1); import time; time.sleep(1000)"

    async def main() -> None:
        process = await SupervisedProcess.start([sys.executable, "-c", writes], tmp_path / "log")
        try:
            while (usage := process.tree.usage()).bytes_written < 5_000_000:
                await asyncio.sleep(0.02)
            assert usage.rss > 1_000_000
            assert len(process.log_tail()) == 300, "a line of the log is not told at any length"
        finally:
            await process.stop()

    uvloop.run(asyncio.wait_for(main(), 240))


def _alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
