"""A broker process, and `mqlab` with a terminal as its standard input."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from .command import END_TIMEOUT_S, PROGRAM, Background, environment


@contextmanager
def broker_process(folder: Path, *options: str | Path, **more: str) -> Iterator[tuple[Background, str]]:
    """Start a broker; yield its command and its first address."""
    if "--listen" not in options:
        options = ("--listen", "tcp:127.0.0.1:0", *options)
    with Background(folder, *PROGRAM, "broker", *options, **more) as command:
        assert command.process.stdout is not None
        line = command.process.stdout.readline().decode()
        assert line.startswith("listening on "), command.stderr
        yield command, line.removeprefix("listening on ").strip()


class TerminalCommand:
    """A command whose stdin is a terminal. A thread reads its stderr, so that a test can wait for a prompt."""

    def __init__(self, *arguments: str | Path, **more: str) -> None:
        self._keys, terminal = os.openpty()
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mqlab", *map(str, arguments)], stdin=terminal, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, env=environment(**more), start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(terminal)
        self.stderr = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        while data := os.read(self.process.stderr.fileno(), 4096):
            self.stderr += data

    def wait_for_output(self, words: str, times: int = 1) -> None:
        """Wait for a prompt. Input before a password prompt is lost, so wait for the blank after the colon."""
        deadline = time.monotonic() + END_TIMEOUT_S
        while self.stderr.decode().count(words) < times:
            assert time.monotonic() < deadline, self.stderr
            assert self._reader.is_alive() or self.stderr.decode().count(words) >= times, self.stderr
            time.sleep(0.01)

    def enter(self, line: str) -> None:
        os.write(self._keys, f"{line}\n".encode())

    def end(self) -> int:
        code = self.process.wait(END_TIMEOUT_S)
        self._reader.join(END_TIMEOUT_S)
        return code

    def __enter__(self) -> "TerminalCommand":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate()
        self._reader.join(END_TIMEOUT_S)
        os.close(self._keys)
