"""What Ctrl-C does to a long job: load is cancelled and cleans up, Spark is left at once.

A KeyboardInterrupt is no way out of Spark. It may be lost in a callback, leave Java behind while it starts, or make
Python's own finalization hang; and nothing needs saving, since the events are on disk and measures are made anew.
"""

import asyncio
import atexit
import os
import signal
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

import psutil

from mqlab.cli.console import Exit, say

_NUMBERS = (signal.SIGINT, signal.SIGTERM)


async def cancelled_once(job: Coroutine[object, object, None]) -> None:
    """SIGINT and SIGTERM cancel the job once. From then on nothing disturbs its clean-up, nor the program's end."""
    work = asyncio.ensure_future(job)
    loop = asyncio.get_running_loop()

    def cancel(_: int, __: FrameType | None) -> None:
        for number in _NUMBERS:
            # No SIG_IGN: processes that the clean-up starts would inherit it.
            signal.signal(number, lambda _, __: None)
        loop.call_soon_threadsafe(work.cancel)

    before = {number: signal.signal(number, cancel) for number in _NUMBERS}
    try:
        await work
    finally:
        if signal.getsignal(signal.SIGINT) is cancel:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def leaving_at_once(message: str) -> Iterator[None]:
    """SIGINT and SIGTERM end the program with these words and code 130, without any further ado."""

    def leave(_: int, __: FrameType | None) -> NoReturn:
        say(f"mqlab: {message}")
        for child in psutil.Process().children(recursive=True):
            child.kill()
        leave_at_once()

    before = {number: signal.signal(number, leave) for number in _NUMBERS}
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
