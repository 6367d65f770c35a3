"""A broker in a process of its own, and `mqlab` at a terminal."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from .command import ENDING, PROGRAM, Background, environment


@contextmanager
def broker_process(folder: Path, *options: str | Path, **more: str) -> Iterator[tuple[Background, str]]:
    """The command, and the first address it listens on."""
    if "--listen" not in options:
        options = ("--listen", "tcp:127.0.0.1:0", *options)
    with Background(folder, *PROGRAM, "broker", *options, **more) as command:
        assert command.process.stdout is not None
        line = command.process.stdout.readline().decode()
        assert line.startswith("listening on "), command.said
        yield command, line.removeprefix("listening on ").strip()


class AtTerminal:
    """A command whose stdin is a terminal. What it says is read as it comes: who asks waits for the answer."""

    def __init__(self, *arguments: str | Path, **more: str) -> None:
        self._keys, terminal = os.openpty()
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mqlab", *map(str, arguments)], stdin=terminal, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, env=environment(**more), start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(terminal)
        self.said = b""
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        while data := os.read(self.process.stderr.fileno(), 4096):
            self.said += data

    def wait_until_said(self, words: str, times: int = 1) -> None:
        """What is typed before a password is asked for is lost: wait for the blank after the colon."""
        deadline = time.monotonic() + ENDING
        while self.said.decode().count(words) < times:
            assert time.monotonic() < deadline, self.said
            assert self._reading.is_alive() or self.said.decode().count(words) >= times, self.said
            time.sleep(0.01)

    def enter(self, line: str) -> None:
        os.write(self._keys, f"{line}\n".encode())

    def end(self) -> int:
        code = self.process.wait(ENDING)
        self._reading.join(ENDING)
        return code

    def __enter__(self) -> "AtTerminal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate()
        self._reading.join(ENDING)
        os.close(self._keys)
