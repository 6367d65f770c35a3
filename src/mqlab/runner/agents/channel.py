"""The channel between the conductor and an agent: lines of JSON over pipes or a connection."""

import asyncio
import os
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple, Protocol

MAX_LINE_BYTES: Final = 1 << 24
_STOP_SECONDS: Final = 5.0


class Place(NamedTuple):
    """Where a process runs: the boot of its kernel, and the namespaces that say what it shares with others."""

    boot: str
    time: str
    net: str
    pid: str

    @classmethod
    @cache
    def here(cls) -> "Place":
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return cls(boot, *map(_namespace, cls._fields[1:]))

    def has_clock_of(self, other: "Place") -> bool:
        """Whether both read the same monotonic clock."""
        return (self.boot, self.time) == (other.boot, other.time)

    def has_loopback_of(self, other: "Place") -> bool:
        return (self.boot, self.net) == (other.boot, other.net)

    def has_processes_of(self, other: "Place") -> bool:
        """Whether a process id means the same process, on the same processors and with the same wall clock."""
        return (self.boot, self.pid) == (other.boot, other.pid)


def _namespace(kind: str) -> str:
    try:
        return os.readlink(f"/proc/self/ns/{kind}")
    except OSError:  # an old kernel does not have this kind
        return ""


class Channel(Protocol):
    """`host`: the name of the agent's machine; "" if the conductor started the agent as a process of its own."""

    host: str
    pid: int
    place: Place

    @property
    def reader(self) -> asyncio.StreamReader: ...

    @property
    def writer(self) -> asyncio.StreamWriter: ...

    def sever(self) -> None:
        """End the agent at once."""

    async def close(self) -> None:
        """Let the agent end, and return when it has."""


class ProcessChannel:
    """A process of this machine: its stdin and stdout."""

    host = ""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.pid = process.pid
        self.place = Place.here()
        self.reader, self.writer = process.stdout, process.stdin
        self._process = process

    @classmethod
    async def start(cls) -> "ProcessChannel":
        # In its own session: Ctrl-C in a terminal reaches only the conductor, which decides what to do.
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "mqlab.runner.agents.process", stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE, limit=MAX_LINE_BYTES, start_new_session=True,
        )  # fmt: skip
        return cls(process)

    def sever(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()

    async def close(self) -> None:
        """Close its stdin, which ends it; kill it if that does not help."""
        self.writer.close()
        try:
            await asyncio.wait_for(self._process.wait(), _STOP_SECONDS)
        except TimeoutError:
            self.sever()
            await self._process.wait()


class ConnectionChannel:
    """A connection that the agent opened. An agent ends when its connection ends."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, pid: int, place: Place
    ) -> None:
        self.reader, self.writer = reader, writer
        self.host, self.pid, self.place = host, pid, place

    def sever(self) -> None:
        self.writer.transport.abort()

    async def close(self) -> None:
        """Close the connection. The launcher of the agent waits for its end."""
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()
