"""The lab's side of a keeper: a command that runs until it is stopped, and for certain not longer."""

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

# A system that was asked to end has this long before it is made to.
GRACE_SECONDS = 5.0
# And its keeper this much longer.
_KEEPER_SECONDS: Final = 5.0
_TAIL_LINES, _TAIL_BYTES, _LINE_LENGTH = 5, 16_384, 300
_COLOURS: Final = re.compile(r"\x1b\[[\d;]*m")


class SupervisedProcess:
    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        # All processes of the command descend from the keeper, which itself does nothing.
        self.pid = process.pid
        self.log = log
        self.tree = ProcessTree(process.pid)
        self._process = process
        # How the command ended; "" while it runs.
        self.ended = ""
        self._listening = asyncio.ensure_future(self._listen())

    @classmethod
    async def start(
        cls, arguments: Sequence[str], log: Path, *, environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> "SupervisedProcess":  # fmt: skip
        """Raises SystemFailedError if there can be no process."""
        # Without the user's packages and settings: it needs none, and starts quicker.
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

    def tail(self) -> str:
        """The last lines of what it said, as one line; "" if it said nothing."""
        try:
            with self.log.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL_BYTES))
                text = log.read().decode(errors="replace")
        except OSError:
            return ""
        lines = ["".join(filter(str.isprintable, line)).strip() for line in _COLOURS.sub("", text).splitlines()]
        return " / ".join([line[:_LINE_LENGTH] for line in lines if line][-_TAIL_LINES:])

    async def end(self) -> None:
        """Returns when it has ended by itself."""
        await asyncio.wait((self._listening,))

    async def stop(self) -> None:
        """Nothing of it is left afterwards. May be called again."""
        # What is known of it now: if the keeper was killed, nobody else ends these.
        below = self.tree.processes()
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), GRACE_SECONDS + _KEEPER_SECONDS)
        except TimeoutError:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        for one in below:
            with suppress(psutil.Error):
                one.kill()
        await asyncio.wait((self._listening,))

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            if not line.startswith(b"started "):
                self.ended = line.decode().strip()
        self.ended = self.ended or "it was ended"
