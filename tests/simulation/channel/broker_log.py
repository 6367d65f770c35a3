"""The log of the brokers: lines that tell what happened, and lines that must never appear."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from .books import Books
from .loop import Loop
from .timeline import Timeline

_COUNTED = {
    "channel to %s: %d messages that were in doubt had arrived": "found arrived",
    "channel to %s: %d non-persistent messages were lost": "found lost",
}
_JOINED = "channel to %s: connected to %s"
# A disk that fails is part of the simulation.
_EXPECTED = "the broker stops: %s"


class Hearing(logging.Handler):
    def __init__(self, timeline: Timeline, books: Books) -> None:
        super().__init__(logging.INFO)
        self._timeline = timeline
        self._books = books

    def emit(self, record: logging.LogRecord) -> None:
        loop = asyncio._get_running_loop()
        if not isinstance(loop, Loop) or loop.dead:
            return
        self._timeline.tell(f"  {record.getMessage()}")
        if record.msg == _JOINED:
            assert isinstance(record.args, tuple)
            to = str(record.args[0])
            self._books.joined[to] = self._books.lives[to]
        if record.msg in _COUNTED:
            self._books.count(_COUNTED[record.msg])
        if record.levelno >= logging.ERROR and record.msg != _EXPECTED:
            loop.complaints.append(record.getMessage())


@contextmanager
def heard(timeline: Timeline, books: Books) -> Iterator[None]:
    """Nobody else hears it."""
    log, hearing = logging.getLogger("mqlab.broker"), Hearing(timeline, books)
    before = log.level, log.propagate
    log.addHandler(hearing)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(hearing)
        log.level, log.propagate = before
