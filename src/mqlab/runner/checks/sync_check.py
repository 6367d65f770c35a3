"""The sync check: strace records the system calls of a system while a probe sends persistent messages one by one.

Each message is sent when the one before is confirmed, so a sync that ends between a send and its confirmation belongs
to that message. Tracing slows a system down, so the check is not part of a run.
"""

import asyncio
import re
import shutil
import signal
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import psutil

from mqlab.runner.agents.handle import AgentHandle, AgentLostError, BrokenRunError, check_answer
from mqlab.runner.capability import unsupported_features
from mqlab.systems import Running, System

_SYNCS: Final = ("fsync", "fdatasync", "msync", "sync_file_range", "syncfs")
_WRITES: Final = ("write", "pwrite64", "writev", "pwritev", "pwritev2")
# O_DSYNC in the flags of /proc/PID/fdinfo: each write to the file is a sync.
_O_DSYNC: Final = 0o10000
# Enough to distinguish a system that always syncs from one that syncs sometimes.
_MESSAGES: Final = 40
_PROBE_SECONDS: Final = 60.0
_ATTACH_SECONDS: Final = 15.0
_END_SECONDS: Final = 10.0

# PID, time, call(file, ...) = result <seconds>; or two lines, if another thread's call comes between.
_RESULT: Final = r".*\) += (?P<result>-?\d+).*<(?P<took>[\d.]+)>$"
_WHOLE: Final = re.compile(r"^(?P<pid>\d+) +(?P<t>\d+\.\d+) (?P<call>\w+)\((?P<fd>\d*)" + _RESULT)
_BEGUN: Final = re.compile(r"^(?P<pid>\d+) +\d+\.\d+ (?P<call>\w+)\((?P<fd>\d*).*<unfinished \.\.\.>$")
_ENDED: Final = re.compile(r"^(?P<pid>\d+) +(?P<t>\d+\.\d+) <\.\.\. (?P<call>\w+) resumed>" + _RESULT)


class ConfirmedSend(NamedTuple):
    """When a message was sent and when it was confirmed, in seconds of the wall clock."""

    sent: float
    confirmed: float


@dataclass(frozen=True)
class SyncCheck:
    """The result: how many confirmations came, and before how many of them a sync ended.

    `why` is the reason if the check was not possible.
    """

    confirmed: int = 0
    synced: int = 0
    syncs: int = 0
    why: str = ""

    @property
    def is_early(self) -> bool:
        """Whether the system confirmed a message that was not synced."""
        return self.synced < self.confirmed

    def __str__(self) -> str:
        if self.why:
            return f"not seen: {self.why}"
        if self.synced == self.confirmed:
            return f"syncs before it confirms: {self.syncs} syncs for {self.confirmed} confirmations"
        return f"confirms before it syncs: {self.synced} of {self.confirmed} confirmations had a sync before them"


async def trace_syncs(pid: int, record: Path, send: Callable[[], Awaitable[Sequence[ConfirmedSend]]]) -> SyncCheck:
    """Trace the process and its descendants into the file `record` while `send` sends."""
    program = shutil.which("strace")
    if program is None:
        return SyncCheck(why="strace is not installed")
    try:
        processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    except psutil.Error as error:
        return SyncCheck(why=str(error))
    synced_files = {fd for process in processes for fd in _synced_files(process.pid)}
    calls = _SYNCS + (_WRITES if synced_files else ())
    strace = await asyncio.create_subprocess_exec(
        program, "-f", "-ttt", "-T", "-e", f"trace={','.join(calls)}", "-e", "signal=none", "-o", str(record),
        *(part for process in processes for part in ("-p", str(process.pid))),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        if reason := await _wait_attached(strace, len(processes)):
            return SyncCheck(why=reason)
        sent = await send()
    finally:
        await _stop(strace)
    ends = sync_ends(record.read_text(errors="replace").splitlines(), synced_files)
    return compare(sent, ends)


def compare(sends: Iterable[ConfirmedSend], ends: Sequence[float]) -> SyncCheck:
    """Count the sends between which and their confirmation a sync ended."""
    messages = list(sends)
    synced = sum(any(message.sent <= end <= message.confirmed for end in ends) for message in messages)
    return SyncCheck(len(messages), synced, len(ends))


def sync_ends(lines: Iterable[str], synced_files: Iterable[int] = ()) -> list[float]:
    """The end of each successful sync in the output of strace; a write to one of `synced_files` is a sync."""
    files, begun, ends = {str(fd) for fd in synced_files}, {}, []
    for line in lines:
        if match := _BEGUN.match(line):
            begun[match["pid"]] = match["fd"]
        elif match := _WHOLE.match(line):
            if _is_sync(match["call"], match["fd"], match["result"], files):
                ends.append(float(match["t"]) + float(match["took"]))
        elif (match := _ENDED.match(line)) and _is_sync(
            match["call"], begun.pop(match["pid"], ""), match["result"], files
        ):
            ends.append(float(match["t"]))
    return ends


def _is_sync(call: str, fd: str, result: str, files: set[str]) -> bool:
    return int(result) >= 0 and (call in _SYNCS or fd in files)


def _synced_files(pid: int) -> list[int]:
    files = []
    with suppress(OSError):
        for entry in Path(f"/proc/{pid}/fdinfo").iterdir():
            with suppress(OSError):
                match = re.search(r"^flags:\s+0?(\d+)$", entry.read_text(), re.MULTILINE)
                if match and int(match[1], 8) & _O_DSYNC:
                    files.append(int(entry.name))
    return files


async def _wait_attached(strace: asyncio.subprocess.Process, processes: int) -> str:
    """Returns "" when strace has attached to every process, or the reason why it has not."""
    assert strace.stderr is not None
    last_line = ""
    try:
        async with asyncio.timeout(_ATTACH_SECONDS):
            while processes:
                line = (await strace.stderr.readline()).decode(errors="replace").strip()
                if not line or "Operation not permitted" in line:
                    return last_line or line or "strace ended"
                processes -= "attached" in line
                last_line = line
    except TimeoutError:
        return "strace did not attach"
    return ""


async def _stop(strace: asyncio.subprocess.Process) -> None:
    """Interrupt strace: it detaches from the processes."""
    if strace.stderr is not None:
        reading = asyncio.ensure_future(strace.stderr.read())
    for number in (signal.SIGINT, signal.SIGKILL):
        with suppress(ProcessLookupError):
            strace.send_signal(number)
        with suppress(TimeoutError):
            await asyncio.wait_for(strace.wait(), _END_SECONDS)
            break
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)


async def check_syncs(system: System, running: Running, agent: AgentHandle, record: Path) -> SyncCheck:
    """Check a system. It raises nothing: the result has the reason if the check is not possible."""
    if running.pid is None:
        return SyncCheck(why="it is not on this machine")
    if not agent.is_here:
        return SyncCheck(why=f"{agent.name} sends by another wall clock")
    destination = "topic:probe" if "queues" in unsupported_features(system) else "queue:probe"

    async def send() -> list[ConfirmedSend]:
        answer = check_answer(await agent.ask(
            "probe", timeout_s=_PROBE_SECONDS, driver=system.driver, address=running.address,
            options=dict(running.options), destination=destination, messages=_MESSAGES,
        ))  # fmt: skip
        return [ConfirmedSend(*pair) for pair in answer["times"]]

    try:
        return await trace_syncs(running.pid, record, send)
    except (AgentLostError, BrokenRunError) as error:
        return SyncCheck(why=str(error))
