"""The process of an embedded broker: it ends with the lab, and can be started again with its data."""

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from mqlab.systems.supervise import die_with_parent

_START_SECONDS: Final = 120.0
_STOP_SECONDS: Final = 10.0


class BrokerProcess:
    """`address`: where it listens. `options`: those of its command line."""

    def __init__(self, folder: Path, address: str, options: Sequence[str]) -> None:
        self.address = address
        self._command = [
            sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid()),
            sys.executable, "-m", "mqlab", "broker", f"--data={folder}", f"--listen={address}", *options,
        ]  # fmt: skip
        self._log = folder.parent / f"{folder.name}.log"
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Return when it listens. Raises OSError."""
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdout=asyncio.subprocess.PIPE, stderr=log, start_new_session=True, env=_environment()
            )
        assert self._process.stdout is not None
        try:
            line = (await asyncio.wait_for(self._process.stdout.readline(), _START_SECONDS)).decode().strip()
        except TimeoutError:
            raise OSError(f"it printed no address for {_START_SECONDS:g} s") from None
        if not line.startswith("listening on "):
            raise OSError(line or "it ended")

    async def end(self) -> None:
        """End it, if it runs."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _STOP_SECONDS)
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    def why(self, error: Exception) -> str:
        """The last line of its log, or the error if the log is empty."""
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else str(error)


def _environment() -> dict[str, str]:
    """Without broker settings: only those that meta.json names take effect."""
    return {key: value for key, value in os.environ.items() if not key.startswith("MQLAB_BROKER_")}
