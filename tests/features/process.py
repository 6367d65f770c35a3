"""A broker in a process of its own: it can be killed, frozen and weighed."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import psutil


class BrokerProcess:
    """One after the other on the same folder. `options` as on the command line, without --listen."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._folder = folder
        self._options = options
        self._process: asyncio.subprocess.Process | None = None
        self.address = f"unix:{folder / 'socket'}"

    async def start(self) -> None:
        with (self._folder / "words").open("a") as words:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "mqlab", "broker", "--listen", self.address, *self._options,
                stdout=subprocess.PIPE, stderr=words,
            )  # fmt: skip
        assert self._process.stdout is not None
        said = await self._process.stdout.readline()
        assert said.startswith(b"listening on"), (self._folder / "words").read_text()

    @property
    def rss(self) -> int:
        """Resident bytes now."""
        assert self._process is not None
        return psutil.Process(self._process.pid).memory_info().rss

    def freeze(self) -> None:
        """It does nothing more, but its sockets take what they have room for."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    async def kill(self) -> None:
        """kill -9. Does nothing if it has ended."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def stop(self) -> None:
        """In good order."""
        assert self._process is not None
        self._process.terminate()
        assert await self._process.wait() == 0

    async def __aenter__(self) -> "BrokerProcess":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kill()
