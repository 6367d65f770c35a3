"""Ctrl-C while Spark works: leave at once, and take Java along.

A KeyboardInterrupt is no way out there. It may be lost in a callback, leave Java behind while it starts, or make
Python's own finalization hang; and nothing needs saving, since the events are on disk and measures are made anew.
"""

import atexit
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

import psutil

from mqlab.cli.console import Exit, say


@contextmanager
def leaving_at_once(message: str) -> Iterator[None]:
    """SIGINT and SIGTERM end the program with these words and code 130, without any further ado."""

    def leave(_: int, __: FrameType | None) -> NoReturn:
        say(f"mqlab: {message}")
        for child in psutil.Process().children(recursive=True):
            child.kill()
        leave_at_once()

    before = {number: signal.signal(number, leave) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def leave_at_once() -> NoReturn:
    """What is ours to do at the end, and then out."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(Exit.INTERRUPTED)
