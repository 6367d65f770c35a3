"""A real broker process that is killed and started again on the same data folder."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path

COMMAND = (sys.executable, "-m", "mqlab", "broker")


class Victim:
    """`options`: more of them for the broker."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._folder = folder
        self._options = options
        self._process: asyncio.subprocess.Process | None = None
        self.address = f"unix:{folder / 'socket'}"
        # Set while the broker accepts connections: attempts before that would slow down its start.
        self.up = asyncio.Event()
        self.kills = 0
        self.recovery_seconds: list[float] = []

    @property
    def stderr(self) -> str:
        """All that the broker wrote to stderr, in all its processes."""
        path = self._folder / "stderr"
        return path.read_text() if path.exists() else ""

    async def start(self) -> None:
        begin = time.monotonic()
        # Short files and a short log: kills must fall into rolls and checkpoints too.
        options = (
            "--data", str(self._folder / "data"), "--listen", self.address, "--segment-size", "262144",
            "--log-length", "1048576",
        )  # fmt: skip
        with (self._folder / "stderr").open("a") as stderr:
            self._process = await asyncio.create_subprocess_exec(
                *COMMAND, *options, *self._options, stdout=subprocess.PIPE, stderr=stderr
            )
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line.startswith(b"listening on"):
            raise RuntimeError(f"the broker did not start again: {self.stderr[-2000:]}")
        self.recovery_seconds.append(time.monotonic() - begin)
        self.up.set()

    async def kill(self) -> None:
        assert self._process is not None
        self.up.clear()
        self._process.kill()
        await self._process.wait()
        self.kills += 1

    async def stop(self) -> int:
        """Stop the broker in good order; return its exit code."""
        assert self._process is not None
        if self._process.returncode is None:
            self._process.terminate()
        return await self._process.wait()
