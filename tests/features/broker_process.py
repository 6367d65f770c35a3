"""A broker in a process of its own, which a test can kill, freeze and measure."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from process_helpers import freeze


class BrokerProcess:
    """Successive broker processes on one folder. `options` are those of the command line, without --listen."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._folder = folder
        self._options = options
        self._process: asyncio.subprocess.Process | None = None
        self.address = f"unix:{folder / 'socket'}"

    async def start(self) -> None:
        with (self._folder / "stderr").open("a") as stderr:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "mqlab", "broker", "--listen", self.address, *self._options,
                stdout=subprocess.PIPE, stderr=stderr,
            )  # fmt: skip
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        assert line.startswith(b"listening on"), (self._folder / "stderr").read_text()

    @property
    def rss(self) -> int:
        """Resident bytes now."""
        assert self._process is not None
        return psutil.Process(self._process.pid).memory_info().rss

    def freeze(self) -> None:
        """Stop the process. Its sockets still accept data until their buffers are full."""
        assert self._process is not None
        freeze(psutil.Process(self._process.pid))

    def thaw(self) -> None:
        """Let a frozen process go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    async def kill(self) -> None:
        """Kill the process, unless it has ended."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def stop(self) -> None:
        """End the process with SIGTERM."""
        assert self._process is not None
        self._process.terminate()
        assert await self._process.wait() == 0

    async def __aenter__(self) -> "BrokerProcess":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kill()
