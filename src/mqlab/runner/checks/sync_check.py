"""Does a system sync before it confirms? Its system calls are watched from outside, while messages go to it one by one.

Each send is waited for before the next, so a sync that ended between a send and its confirmation can only be meant for
it. Watching slows a system down: it is done apart from any run.
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

_SYNCS: Final = ("fsync", "fdatasync", "msync", "sync_file_range", "syncfs")
_WRITES: Final = ("write", "pwrite64", "writev", "pwritev", "pwritev2")
# In /proc/PID/fdinfo: a file whose writes are synced by themselves.
_SYNCED_WRITES: Final = 0o10000
_ATTACH_SECONDS: Final = 15.0
_END_SECONDS: Final = 10.0

# PID, when, call(file, ...) = result <seconds>; or, where another thread came between, its beginning and its end.
_RESULT: Final = r".*\) += (?P<result>-?\d+).*<(?P<took>[\d.]+)>$"
_WHOLE: Final = re.compile(r"^(?P<pid>\d+) +(?P<t>\d+\.\d+) (?P<call>\w+)\((?P<fd>\d*)" + _RESULT)
_BEGUN: Final = re.compile(r"^(?P<pid>\d+) +\d+\.\d+ (?P<call>\w+)\((?P<fd>\d*).*<unfinished \.\.\.>$")
_ENDED: Final = re.compile(r"^(?P<pid>\d+) +(?P<t>\d+\.\d+) <\.\.\. (?P<call>\w+) resumed>" + _RESULT)


class ConfirmedSend(NamedTuple):
    """One message: when it left, and when it was confirmed, in seconds of the wall clock."""

    sent: float
    confirmed: float


@dataclass(frozen=True)
class SyncCheck:
    """`why`: nothing could be seen, and this is the reason."""

    confirmed: int = 0
    synced: int = 0
    syncs: int = 0
    why: str = ""

    @property
    def early(self) -> bool:
        """Whether it was seen to confirm what was not synced."""
        return self.synced < self.confirmed

    def __str__(self) -> str:
        if self.why:
            return f"not seen: {self.why}"
        if self.synced == self.confirmed:
            return f"syncs before it confirms: {self.syncs} syncs for {self.confirmed} confirmations"
        return f"confirms before it syncs: {self.synced} of {self.confirmed} confirmations had a sync before them"


async def witness(pid: int, record: Path, send: Callable[[], Awaitable[Sequence[ConfirmedSend]]]) -> SyncCheck:
    """Watch the process and all its descendants while `send` sends; `record` is where the calls are noted."""
    program = shutil.which("strace")
    if program is None:
        return SyncCheck(why="strace is not installed")
    try:
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    except psutil.Error as error:
        return SyncCheck(why=str(error))
    synced_files = {fd for process in family for fd in _synced_files(process.pid)}
    calls = _SYNCS + (_WRITES if synced_files else ())
    watching = await asyncio.create_subprocess_exec(
        program, "-f", "-ttt", "-T", "-e", f"trace={','.join(calls)}", "-e", "signal=none", "-o", str(record),
        *(part for process in family for part in ("-p", str(process.pid))),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        if why := await _attached(watching, len(family)):
            return SyncCheck(why=why)
        sent = await send()
    finally:
        await _end(watching)
    ends = ended(record.read_text(errors="replace").splitlines(), synced_files)
    return seen(sent, ends)


def seen(sent: Iterable[ConfirmedSend], ends: Sequence[float]) -> SyncCheck:
    """Which confirmations had a sync that ended after their send and before they came."""
    messages = list(sent)
    synced = sum(any(one.sent <= end <= one.confirmed for end in ends) for one in messages)
    return SyncCheck(len(messages), synced, len(ends))


def ended(lines: Iterable[str], synced_files: Iterable[int] = ()) -> list[float]:
    """When each sync that succeeded came to its end; a write counts where the file is one that syncs by itself."""
    files, begun, found = {str(fd) for fd in synced_files}, {}, []
    for line in lines:
        if match := _BEGUN.match(line):
            begun[match["pid"]] = match["fd"]
        elif match := _WHOLE.match(line):
            if _counts(match["call"], match["fd"], match["result"], files):
                found.append(float(match["t"]) + float(match["took"]))
        elif (match := _ENDED.match(line)) and _counts(
            match["call"], begun.pop(match["pid"], ""), match["result"], files
        ):
            found.append(float(match["t"]))
    return found


def _counts(call: str, fd: str, result: str, files: set[str]) -> bool:
    return int(result) >= 0 and (call in _SYNCS or fd in files)


def _synced_files(pid: int) -> list[int]:
    found = []
    with suppress(OSError):
        for entry in Path(f"/proc/{pid}/fdinfo").iterdir():
            with suppress(OSError):
                match = re.search(r"^flags:\s+0?(\d+)$", entry.read_text(), re.MULTILINE)
                if match and int(match[1], 8) & _SYNCED_WRITES:
                    found.append(int(entry.name))
    return found


async def _attached(watching: asyncio.subprocess.Process, processes: int) -> str:
    """Returns "" when every process is watched, or why not."""
    assert watching.stderr is not None
    said = ""
    try:
        async with asyncio.timeout(_ATTACH_SECONDS):
            while processes:
                line = (await watching.stderr.readline()).decode(errors="replace").strip()
                if not line or "Operation not permitted" in line:
                    return said or line or "strace ended"
                processes -= "attached" in line
                said = line
    except TimeoutError:
        return "strace did not attach"
    return ""


async def _end(watching: asyncio.subprocess.Process) -> None:
    """It lets go of what it watches when it is interrupted."""
    if watching.stderr is not None:
        reading = asyncio.ensure_future(watching.stderr.read())
    for number in (signal.SIGINT, signal.SIGKILL):
        with suppress(ProcessLookupError):
            watching.send_signal(number)
        with suppress(TimeoutError):
            await asyncio.wait_for(watching.wait(), _END_SECONDS)
            break
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
