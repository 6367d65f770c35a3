"""The API trace: every call of every application, in and out, a line each in a file.

What a call costs is a few values in a list; lines are made of them many at a time.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable
from json.encoder import encode_basestring_ascii as quoted
from pathlib import Path
from time import time_ns
from typing import Any, Final

from mqlab.broker.core.effects import Append, Effect
from mqlab.broker.core.model.sessions import Consumer, Producer, Session
from mqlab.broker.server.trace.isolation import ObserverErrors, isolated
from mqlab.broker.server.trace.traced_links import destination_of
from mqlab.broker.settings import SettingError
from mqlab.wire.native.bodies import Buffer
from mqlab.wire.native.frames import HEADER, HEADER_SIZE, Frame, Kind, ProtocolError

log = logging.getLogger("mqlab.broker")

COLUMNS: Final = (
    "time", "connection", "application", "direction", "kind", "session", "link", "first", "amount", "flags", "length",
    "destination",
)  # fmt: skip
IN, OUT = "in", "out"
_NAMES: Final = {int(kind): kind.name for kind in Kind}
_CLOSED: Final = int(Kind.CLOSED)
_TOLD: Final = 255
# Destinations, and beginnings of lines, that are known of one connection: a client may make up any number of them.
_MOST_KNOWN: Final = 4096

Actions = dict[type[Effect], Callable[[Any], None]]

_OPENING: Final = frozenset((int(Kind.OPEN_PRODUCER), int(Kind.OPEN_CONSUMER)))
# How often what came is written, and how many lines at most wait for it.
_SECONDS: Final = 0.05
_MOST: Final = 10_000


class CallRecorder:
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
    def frame_received(self, frame: Frame) -> None:
        kind, flags, session, link, first, amount, payload = frame
        said = bytes(payload) if kind in _OPENING else None
        self._append((time_ns(), self, IN, kind, flags, session, link, first, amount, len(payload), said))

    @isolated
    def bytes_sent(self, unsent: Iterable[Buffer]) -> None:
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
    def frames_sent(self, frames: Iterable[Frame]) -> None:
        """The same of frames that are not written to a socket."""
        now, append = time_ns(), self._append
        for kind, flags, session, link, first, amount, payload in frames:
            append((now, self, OUT, kind, flags, session, link, first, amount, len(payload), None))
        if len(self._trace.calls) >= _MOST:
            self._trace.write()

    @isolated
    def connection_closed(self) -> None:
        self._append((time_ns(), self, OUT, 0, 0, 0, 0, 0, 0, 0, None))
        self._trace.recorders.discard(self)


class ApiTrace:
    """Raises SettingError if the file cannot be written; should that happen later, tracing ends and nothing else."""

    def __init__(self, path: Path, errors: ObserverErrors, *, internal: bool) -> None:
        self.internal = internal
        self.errors = errors
        self.calls: list[tuple[Any, ...]] = []
        self.recorders: set[CallRecorder] = set()
        self._path = path
        try:
            # What applications do is nobody else's business.
            self._file: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise SettingError(f"api_trace: {path} cannot be written: {error.strerror}") from None
        self._write("\t".join(COLUMNS) + "\n")
        self._timer: asyncio.TimerHandle | None = None

    def call_recorder(self, connection: Any) -> CallRecorder | None:
        """None: tracing has ended."""
        if self._file is None:
            return None
        if self._timer is None:
            self._look()
        recorder = CallRecorder(self, connection)
        self.recorders.add(recorder)
        return recorder

    def around(self, actions: Actions) -> Actions:
        """The same actions; with `internal`, each effect of the core is traced before it is carried out."""

        def traced(action: Callable[[Any], None]) -> Callable[[Any], None]:
            def run_effects(effect: Effect) -> None:
                if self._file is not None:
                    self._effect(effect)
                action(effect)

            return run_effects

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
            for recorder in self.recorders:
                recorder.connection.call_recorder = None
            self.recorders.clear()


def line_of(call: tuple[Any, ...]) -> str:
    """Of a time and a line of the core or the journal, or of a call as a connection noted it."""
    if len(call) == 2:
        return f"{call[0]}\t{call[1]}\n"
    now, recorder, direction, kind, flags, session, link, first, amount, length, said = call
    if said is not None:
        _know(recorder, link, said)
    key = (direction, kind, session, link)
    words = recorder.words.get(key)
    if words is None:
        words = _words(recorder, key)
    if kind == _CLOSED and link:
        recorder.destinations.pop(link, None)
    return f"{now}\t{words[0]}\t{first}\t{amount}\t{flags}\t{length}\t{words[1]}\n"


def effect_line(effect: Effect) -> str:
    """What the core wants done, in the same columns but the time."""
    kind = type(effect).__name__
    if isinstance(effect, Append):
        return _line("-", "", "core", f"{kind}:{type(effect.record).__name__}", first=effect.lsn)
    about: Any = effect[0]
    session, link, first, destination = 0, 0, 0, ""
    owner = about
    if isinstance(about, Producer | Consumer):
        session, link, destination, owner = about.session.number, about.link, destination_of(about), about.session.owner
        first = effect[1] if len(effect) > 1 and isinstance(effect[1], int) else 0
    elif isinstance(about, Session):
        session, owner = about.number, about.owner
    number, application = str(getattr(owner, "number", "-")), str(getattr(owner, "application", ""))
    return _line(number, application, "core", kind, session=session, link=link, first=first, destination=destination)


def journal_line(what: str, lsn: int) -> str:
    return _line("-", "", "journal", what, first=lsn)


def _line(
    connection: str, application: str, direction: str, kind: str, *, session: int = 0, link: int = 0, first: int = 0,
    destination: str = "",
) -> str:  # fmt: skip
    before = f"{connection}\t{quoted(application)}\t{direction}\t{kind}\t{session}\t{link}"
    return f"{before}\t{first}\t0\t0\t0\t{quoted(destination)}"


def _know(recorder: CallRecorder, link: int, said: bytes) -> None:
    """What a link is opened to is what its later lines are about."""
    try:
        name = Frame(0, 0, 0, 0, 0, 0, memoryview(said)).json().get("destination")
    except ProtocolError:
        name = None
    if len(recorder.destinations) >= _MOST_KNOWN:
        recorder.destinations.clear()
    recorder.destinations[link] = quoted(name[:_TOLD]) if isinstance(name, str) else '""'
    recorder.words.clear()


def _words(recorder: CallRecorder, key: tuple[str, int, int, int]) -> tuple[str, str]:
    """What all lines of one kind about one link have in common."""
    direction, kind, session, link = key
    who = f"{recorder.connection.number}\t{quoted(recorder.connection.application)}"
    words = f"{who}\t{direction}\t{_NAMES.get(kind, 'END')}\t{session}\t{link}", recorder.destinations.get(link, '""')
    if len(recorder.words) >= _MOST_KNOWN:
        recorder.words.clear()
    recorder.words[key] = words
    return words
