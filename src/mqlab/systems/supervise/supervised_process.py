"""The lab's handle on a supervisor: a command that runs until it is stopped, and never longer than the lab."""

import asyncio
import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from mqlab.systems.api import SystemFailedError
from mqlab.systems.supervise import supervisor
from mqlab.systems.supervise.process_tree import ProcessTree

# Time between SIGTERM and SIGKILL for the command.
GRACE_SECONDS = 5.0
# Further time for the supervisor to end.
_SUPERVISOR_SECONDS: Final = 5.0
_TAIL_LINES, _TAIL_BYTES, _LINE_LENGTH = 5, 16_384, 300
_COLOURS: Final = re.compile(r"\x1b\[[\d;]*m")


class SupervisedProcess:
    """A command under a supervisor; its output goes to the file `log`."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        # The supervisor: all processes of the command are its descendants.
        self.pid = process.pid
        self.log = log
        self.tree = ProcessTree(process.pid)
        self._process = process
        # How the command ended, as a phrase; "" while it runs.
        self.ended = ""
        self._reading = asyncio.ensure_future(self._read_status())

    @classmethod
    async def start(
        cls, arguments: Sequence[str], log: Path, *, environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> "SupervisedProcess":  # fmt: skip
        """Raises SystemFailedError if the supervisor cannot be started."""
        # Isolated and without site packages: it needs none, and starts faster.
        script = [sys.executable, "-I", "-S", supervisor.__file__]
        command = [*script, str(GRACE_SECONDS), str(log.absolute()), *map(str, arguments)]
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, start_new_session=True,
                env={**os.environ, **(environment or {})}, cwd=directory,
            )  # fmt: skip
        except OSError as error:
            raise SystemFailedError(f"{arguments[0]} cannot be started: {error.strerror or error}") from error
        return cls(process, log)

    def log_tail(self) -> str:
        """The last lines of the log, as one line; "" if it is empty."""
        try:
            with self.log.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL_BYTES))
                text = log.read().decode(errors="replace")
        except OSError:
            return ""
        lines = ["".join(filter(str.isprintable, line)).strip() for line in _COLOURS.sub("", text).splitlines()]
        return " / ".join([line[:_LINE_LENGTH] for line in lines if line][-_TAIL_LINES:])

    def signal(self, number: int) -> None:
        """Send a signal to all processes of the command, but not to their supervisor."""
        for process in self.tree.processes():
            with suppress(psutil.Error):
                process.send_signal(number)

    async def stop(self) -> None:
        """End all processes of the command. May be called again."""
        # If the supervisor was killed, only the lab can end these.
        descendants = self.tree.processes()
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), GRACE_SECONDS + _SUPERVISOR_SECONDS)
        except TimeoutError:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        for process in descendants:
            with suppress(psutil.Error):
                process.kill()
        await asyncio.wait((self._reading,))

    async def _read_status(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            if not line.startswith(b"started "):
                self.ended = line.decode().strip()
        self.ended = self.ended or "it was ended"
