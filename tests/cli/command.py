"""`mqlab` as a person starts it: a process of its own; or in this process, where Spark is up already."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil
from tests.process_helpers import commands_with
from typer.testing import CliRunner, Result

from mqlab.cli.app import app_with

# No test may wait for longer, whatever is broken.
PATIENCE = 240.0
# A command that was interrupted has this long to be gone.
ENDING = 40.0
PROGRAM = (sys.executable, "-m", "mqlab")
# Little data: the time that Java's second compiler takes never comes back.
QUICK_JAVA = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}

SMALL = """
study: mine
title: My own
scenarios:
  A: {topics: 1, producers: 1, consumers: 2, message: {size: 12B}}
  B: {queues: 2, producers: 2, consumers: 2, message: {size: 1KiB, persistent: yes}, send: confirmed, rate: 400/s}
scales:
  quick: {phases: {warmup: 100ms, measure: 400ms, drain: 2s}, repeat: {until: none, least: 1, most: 1}}
"""


def environment(**more: str) -> dict[str, str]:
    """Ours, without what would change the words or the places."""
    unwanted = ("MQLAB_", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM")
    return {key: value for key, value in os.environ.items() if not key.startswith(unwanted)} | QUICK_JAVA | more


def mqlab(*arguments: str | Path, cwd: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    command = [*PROGRAM, *map(str, arguments)]
    return subprocess.run(
        command, cwd=cwd, env=environment(**more), capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def here(*arguments: str | Path) -> Result:
    """The command in this process."""
    result = CliRunner(env=QUICK_JAVA).invoke(app_with(), [*map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def document(text: str) -> dict[str, Any]:
    """Exactly one JSON document, in which every number is one."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    found: dict[str, Any] = json.loads(text, parse_constant=refuse)
    return found


class Background:
    """A command under way, in a process group of its own, as a shell starts it."""

    def __init__(self, folder: Path, *command: str | Path, **more: str) -> None:
        self._said = folder / "stderr"
        self._family: list[psutil.Process] = []
        with self._said.open("wb") as words:
            self.process = subprocess.Popen(
                [*map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=words,
                env=environment(**more), start_new_session=True,
            )  # fmt: skip

    def __enter__(self) -> "Background":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in [*self._relatives(), *self._family]:
            if process.is_running():
                process.kill()
        self.process.kill()
        self.process.communicate()

    @property
    def said(self) -> str:
        # What is being written may end within a character.
        return self._said.read_text(errors="replace")

    def wait_until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert self.process.poll() is None, f"it has ended: {self.said}"
            assert time.monotonic() < deadline, self.said
            time.sleep(0.02)

    def wait_until_said(self, words: str) -> None:
        self.wait_until(lambda: words in self.said)

    def descendants(self, word: str) -> list[psutil.Process]:
        return commands_with(word, self._relatives())

    def interrupt(self, number: int = signal.SIGINT) -> None:
        """To the whole group, as the terminal does it."""
        self.remember()
        os.killpg(self.process.pid, number)

    def remember(self) -> None:
        """Its descendants now: none of them may be left when it has ended."""
        self._family = self._relatives()

    def end(self) -> tuple[int, str]:
        """The exit code, and what it wrote to stdout."""
        out, _ = self.process.communicate(timeout=ENDING)
        # Java notices that nobody is left to talk to, which may take it a moment on a busy machine.
        _, left = psutil.wait_procs(self._family, timeout=20)
        assert left == [], "processes were left behind"
        return self.process.returncode, out.decode()

    def _relatives(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
