"""Runs `mqlab` in a process of its own, or in this process, which may have a running Spark session."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import psutil
from typer.testing import CliRunner, Result

from mqlab.cli.app import app_with
from mqlab.json_values import JsonObject
from process_helpers import commands_with

# The longest wait of a test.
TIMEOUT_S = 1800.0
# The longest time that a command may take to end after an interrupt.
END_TIMEOUT_S = 240.0
PROGRAM = (sys.executable, "-m", "mqlab")
# The tests have little data, so Java's optimizing compiler would cost more than it saves.
QUICK_JAVA = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}

SMALL = """
study: mine
title: My own
scenarios:
  A: {topics: 1, producers: 1, consumers: 2, message: {size: 12B}}
  B: {queues: 2, producers: 2, consumers: 2, message: {size: 1KiB, persistent: yes}, send: confirmed, rate: 400/s}
scales:
  quick: {phases: {warmup: 100ms, measure: 400ms, drain: 60s}, repeat: {until: none, least: 1, most: 1}}
"""


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment without variables that change the output or the folders."""
    unwanted = ("MQLAB_", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(unwanted)}
    return kept | QUICK_JAVA | {"MQLAB_IGNORE_NOISE": "1"} | more


def mqlab(*arguments: str | Path, cwd: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    command = [*PROGRAM, *map(str, arguments)]
    return subprocess.run(
        command, cwd=cwd, env=environment(**more), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


def here(*arguments: str | Path) -> Result:
    """Run the command in this process."""
    result = CliRunner(env=QUICK_JAVA).invoke(app_with(), [*map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def document(text: str) -> JsonObject:
    """Parse exactly one JSON document, without NaN and infinity."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    parsed: JsonObject = json.loads(text, parse_constant=refuse)
    return parsed


class Background:
    """A running command in a process group of its own, as a shell starts it."""

    def __init__(self, folder: Path, *command: str | Path, **more: str) -> None:
        self._stderr_file = folder / "stderr"
        self._descendants: list[psutil.Process] = []
        with self._stderr_file.open("wb") as stderr:
            self.process = subprocess.Popen(
                [*map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr,
                env=environment(**more), start_new_session=True,
            )  # fmt: skip

    def __enter__(self) -> "Background":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in [*self._children(), *self._descendants]:
            if process.is_running():
                process.kill()
        self.process.kill()
        self.process.communicate()

    @property
    def stderr(self) -> str:
        # The process may be in the middle of writing a character.
        return self._stderr_file.read_text(errors="replace")

    def wait_until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            assert self.process.poll() is None, f"it has ended: {self.stderr}"
            assert time.monotonic() < deadline, self.stderr
            time.sleep(0.02)

    def wait_for_output(self, words: str) -> None:
        self.wait_until(lambda: words in self.stderr)

    def descendants(self, word: str) -> list[psutil.Process]:
        return commands_with(word, self._children())

    def interrupt(self, number: int = signal.SIGINT) -> None:
        """Send the signal to the whole process group, as a terminal does."""
        self.record_descendants()
        os.killpg(self.process.pid, number)

    def record_descendants(self) -> None:
        """Record the present descendants; `end` checks that all of them are gone."""
        self._descendants = self._children()

    def end(self) -> tuple[int, str]:
        """Wait for the end and return the exit code and stdout."""
        out, _ = self.process.communicate(timeout=END_TIMEOUT_S)
        # Java ends when it notices that Python has ended, which takes a moment on a busy machine.
        _, left = psutil.wait_procs(self._descendants, timeout=240)
        assert left == [], "processes were left behind"
        return self.process.returncode, out.decode()

    def _children(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
