"""Handling of Ctrl-C: a running load is cancelled and cleans up; Spark is ended at once.

A KeyboardInterrupt cannot end Spark reliably: a callback may swallow it, a starting Java process may survive it, and
Python's finalization may hang. Nothing is lost: the events are on disk, and measures can be computed again.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

import psutil

from mqlab.cli.terminal.console import exit_at_once, say

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_STDERR = 2


async def run_cancellable(job: Coroutine[object, object, None]) -> None:
    """Run the job. The first SIGINT or SIGTERM cancels it; later ones do not disturb its clean-up or the exit."""
    work = asyncio.ensure_future(job)
    loop = asyncio.get_running_loop()

    def cancel(_: int, __: FrameType | None) -> None:
        for number in _SIGNALS:
            # Not SIG_IGN: processes that the clean-up starts would inherit it.
            signal.signal(number, lambda _, __: None)
        loop.call_soon_threadsafe(work.cancel)

    before = {number: signal.signal(number, cancel) for number in _SIGNALS}
    try:
        await work
    finally:
        if signal.getsignal(signal.SIGINT) is cancel:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def exit_on_signal(message: str) -> Iterator[None]:
    """On SIGINT or SIGTERM, print the message, kill all child processes and exit with code 130."""

    def exit_now(_: int, __: FrameType | None) -> NoReturn:
        say(f"mqlab: {message}")
        _end_output()
        _end_children()
        exit_at_once()

    before = {number: signal.signal(number, exit_now) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_output() -> None:
    """Discard what is written to stderr from now on: threads that use Java report its end with a traceback.

    The file itself ends, since handlers of logging have their own reference to `sys.stderr`.
    """
    sys.stderr.flush()
    os.dup2(os.open(os.devnull, os.O_WRONLY), _STDERR)


def _end_children() -> None:
    """Kill all processes below this one."""
    for child in psutil.Process().children(recursive=True):
        # A child may end by itself meanwhile.
        with suppress(psutil.NoSuchProcess):
            child.kill()
