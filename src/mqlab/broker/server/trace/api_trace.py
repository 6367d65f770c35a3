"""The API trace: every call of every application, in and out, a line each in a file.

What a call costs is a few values in a list; lines are made of them many at a time.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from time import time_ns
from typing import Any, Final

from mqlab.broker.core.effects import Effect
from mqlab.broker.server.trace.api_trace_lines import COLUMNS, IN, OUT, effect_line, journal_line, line_of
from mqlab.broker.server.trace.isolation import ObserverErrors, isolated
from mqlab.broker.settings import SettingError
from mqlab.wire.native.bodies import Buffer
from mqlab.wire.native.frames import HEADER, HEADER_SIZE, Frame, Kind

log = logging.getLogger("mqlab.broker")

Actions = dict[type[Effect], Callable[[Any], None]]

_OPENING: Final = frozenset((int(Kind.OPEN_PRODUCER), int(Kind.OPEN_CONSUMER)))
# How often what came is written, and how many lines at most wait for it.
_SECONDS: Final = 0.05
_MOST: Final = 10_000


class Caller:
    """One connection in the trace."""

    __slots__ = ("_append", "_trace", "connection", "destinations", "errors", "words")

    def __init__(self, trace: ApiTrace, connection: Any) -> None:
        self._trace = trace
        self.errors = trace.errors
        self._append = trace.calls.append
        self.connection = connection
        # Of its links, as they were opened; and what all of its lines of one kind have in common.
        self.destinations: dict[int, str] = {}
        self.words: dict[tuple[str, int, int, int], tuple[str, str]] = {}

    @isolated
    def came(self, frame: Frame) -> None:
        kind, flags, session, link, first, amount, payload = frame
        said = bytes(payload) if kind in _OPENING else None
        self._append((time_ns(), self, IN, kind, flags, session, link, first, amount, len(payload), said))

    @isolated
    def left(self, unsent: Iterable[Buffer]) -> None:
        """Frames whole, or each as a header and what follows it, be it empty."""
        now, append, follows = time_ns(), self._append, False
        for data in unsent:
            if follows or not data:
                follows = False
                continue
            length, kind, flags, session, link, first, amount = HEADER.unpack_from(data)
            follows = length > 0 and len(data) == HEADER_SIZE
            append((now, self, OUT, kind, flags, session, link, first, amount, length, None))
        if len(self._trace.calls) >= _MOST:
            self._trace.write()

    @isolated
    def left_whole(self, frames: Iterable[Frame]) -> None:
        """The same of frames that are not written to a socket."""
        now, append = time_ns(), self._append
        for kind, flags, session, link, first, amount, payload in frames:
            append((now, self, OUT, kind, flags, session, link, first, amount, len(payload), None))
        if len(self._trace.calls) >= _MOST:
            self._trace.write()

    @isolated
    def ended(self) -> None:
        self._append((time_ns(), self, OUT, 0, 0, 0, 0, 0, 0, 0, None))
        self._trace.callers.discard(self)


class ApiTrace:
    """Raises SettingError if the file cannot be written; should that happen later, tracing ends and nothing else."""

    def __init__(self, path: Path, errors: ObserverErrors, *, internal: bool) -> None:
        self.internal = internal
        self.errors = errors
        self.calls: list[tuple[Any, ...]] = []
        self.callers: set[Caller] = set()
        self._path = path
        try:
            # What applications do is nobody else's business.
            self._file: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise SettingError(f"api_trace: {path} cannot be written: {error.strerror}") from None
        self._write("\t".join(COLUMNS) + "\n")
        self._timer: asyncio.TimerHandle | None = None

    def caller(self, connection: Any) -> Caller | None:
        """None: tracing has ended."""
        if self._file is None:
            return None
        if self._timer is None:
            self._look()
        caller = Caller(self, connection)
        self.callers.add(caller)
        return caller

    def around(self, actions: Actions) -> Actions:
        """The same actions; with `internal`, each effect of the core is traced before it is carried out."""

        def traced(action: Callable[[Any], None]) -> Callable[[Any], None]:
            def carry_out(effect: Effect) -> None:
                if self._file is not None:
                    self._effect(effect)
                action(effect)

            return carry_out

        return {kind: traced(action) for kind, action in actions.items()} if self.internal else actions

    @isolated
    def _effect(self, effect: Effect) -> None:
        self.calls.append((time_ns(), effect_line(effect)))

    @isolated
    def journal(self, what: str, lsn: int = 0) -> None:
        """What the journal does: write, sync, durable."""
        if self.internal and self._file is not None:
            self.calls.append((time_ns(), journal_line(what, lsn)))

    def write(self) -> None:
        calls, self.calls[:] = self.calls[:], []
        if calls:
            self._write("".join(map(self._line, calls)))

    def close(self) -> None:
        self.write()
        if self._timer is not None:
            self._timer.cancel()
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _line(self, call: tuple[Any, ...]) -> str:
        try:
            return line_of(call)
        except Exception as error:
            self.errors.caught(error)
            return ""

    def _look(self) -> None:
        self.write()
        if self._file is not None:
            self._timer = asyncio.get_running_loop().call_later(_SECONDS, self._look)

    def _write(self, text: str) -> None:
        if self._file is None:
            return
        left = memoryview(text.encode())
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError as error:
            log.error("the API trace ends here: %s cannot be written: %s", self._path, error.strerror)
            os.close(self._file)
            self._file = None
            for caller in self.callers:
                caller.connection.caller = None
            self.callers.clear()
