"""The API trace: a line in a file for each frame of each application, in and out.

A frame only appends its values to a list; the trace writes the lines later, many at a time. Columns are separated by
tabs. Texts of clients are quoted ASCII, so that no name can end a line or begin one.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from json.encoder import encode_basestring_ascii as quoted
from pathlib import Path
from time import time_ns
from typing import Final, Protocol, runtime_checkable

from mqlab.broker.core.effects import Append, Effect, EffectActions
from mqlab.broker.core.model.sessions import CoreConsumer, CoreProducer, CoreSession
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
# Characters of a destination in a line.
_MOST_TEXT: Final = 255
# Destinations and columns that the recorder of a connection caches: a client may use any number of them.
_MOST_CACHED: Final = 4096

_OPENING: Final = frozenset((int(Kind.OPEN_PRODUCER), int(Kind.OPEN_CONSUMER)))
# How often lines are written, and how many lines may wait.
_WRITE_SECONDS: Final = 0.05
_MOST_WAITING: Final = 10_000


# Producers and consumers by their numbers.
OpenLinks = Mapping[int, CoreProducer | CoreConsumer]


class CallRecorder:
    """Records the frames of one connection."""

    __slots__ = ("_append", "_trace", "columns", "connection", "destinations", "errors")

    def __init__(self, trace: "ApiTrace", connection: "ApiTracedConnection", links: OpenLinks) -> None:
        self._trace = trace
        self.errors = trace.errors
        self._append = trace.calls.append
        self.connection = connection
        # The destinations of its links; and the columns that all lines of one kind have in common.
        self.destinations = {number: quoted(destination_of(link)[:_MOST_TEXT]) for number, link in links.items()}
        self.columns: dict[tuple[str, int, int, int], tuple[str, str]] = {}

    @isolated
    def frame_received(self, frame: Frame) -> None:
        kind, flags, session, link, first, amount, payload = frame
        document = bytes(payload) if kind in _OPENING else None
        self._append((time_ns(), self, IN, kind, flags, session, link, first, amount, len(payload), document))

    @isolated
    def bytes_sent(self, unsent: Iterable[Buffer]) -> None:
        """Each frame is one buffer, or a header and a payload, which may be empty."""
        now, append, follows = time_ns(), self._append, False
        for data in unsent:
            if follows or not data:
                follows = False
                continue
            length, kind, flags, session, link, first, amount = HEADER.unpack_from(data)
            follows = length > 0 and len(data) == HEADER_SIZE
            append((now, self, OUT, kind, flags, session, link, first, amount, length, None))
        if len(self._trace.calls) >= _MOST_WAITING:
            self._trace.write()

    @isolated
    def frames_sent(self, frames: Iterable[Frame]) -> None:
        """The same for frames that are not written to a socket."""
        now, append = time_ns(), self._append
        for kind, flags, session, link, first, amount, payload in frames:
            append((now, self, OUT, kind, flags, session, link, first, amount, len(payload), None))
        if len(self._trace.calls) >= _MOST_WAITING:
            self._trace.write()

    @isolated
    def connection_closed(self) -> None:
        self._append((time_ns(), self, OUT, 0, 0, 0, 0, 0, 0, 0, None))


@runtime_checkable
class ApiTracedConnection(Protocol):
    number: int
    application: str

    def follow(self, trace: "ApiTrace") -> None:
        """Ask for a recorder, or give up the one it has: the trace was switched."""


# A time and a line of the core or the journal; or the values of a frame, and the document of one that opens a link.
Call = tuple[int, str] | tuple[int, CallRecorder, str, int, int, int, int, int, int, int, bytes | None]


class ApiTrace:
    """Raises SettingError if the file cannot be opened. A later write error ends the trace only.

    `connections`: those that are open, also in future.
    """

    def __init__(self, path: Path, connections: Collection[object], errors: ObserverErrors, *, internal: bool) -> None:
        self.internal = internal
        self.errors = errors
        self.calls: list[Call] = []
        self.is_on = True
        self._connections = connections
        self._path = path
        try:
            # Only the owner may read what applications do.
            self._file: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise SettingError(f"api_trace: {path} cannot be written: {error.strerror}") from None
        self._write("\t".join(COLUMNS) + "\n")
        self._timer: asyncio.TimerHandle | None = None

    def call_recorder(self, connection: "ApiTracedConnection", links: OpenLinks) -> CallRecorder | None:
        """Return None if the trace is off. `links`: those that the connection has opened."""
        if not self.is_on:
            return None
        if self._timer is None:
            self._write_regularly()
        return CallRecorder(self, connection, links)

    @property
    def has_ended(self) -> bool:
        return self._file is None

    def switch(self, *, on: bool) -> None:
        """Trace all connections from now on, or none. The lines so far are written first."""
        self.write()
        self.is_on = on and not self.has_ended
        for connection in self._connections:
            if isinstance(connection, ApiTracedConnection):
                connection.follow(self)

    def traced_actions(self, actions: EffectActions) -> EffectActions:
        """With `internal`, wrap the actions so that each effect of the core is traced before it runs."""

        def traced(action: Callable[[Effect], None]) -> Callable[[Effect], None]:
            def run(effect: Effect) -> None:
                if self.is_on:
                    self._effect(effect)
                action(effect)

            return run

        return {kind: traced(action) for kind, action in actions.items()} if self.internal else actions

    @isolated
    def _effect(self, effect: Effect) -> None:
        self.calls.append((time_ns(), effect_line(effect)))

    @isolated
    def journal(self, operation: str, lsn: int = 0) -> None:
        """Trace an operation of the journal: write, sync, durable."""
        if self.internal and self.is_on:
            self.calls.append((time_ns(), _line("-", "", "journal", operation, first=lsn)))

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

    def _line(self, call: Call) -> str:
        try:
            return line_of(call)
        except Exception as error:
            self.errors.caught(error)
            return ""

    def _write_regularly(self) -> None:
        self.write()
        if self._file is not None:
            self._timer = asyncio.get_running_loop().call_later(_WRITE_SECONDS, self._write_regularly)

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
            self.switch(on=False)


def line_of(call: Call) -> str:
    """Format a call: a time and a line of the core or the journal, or the values of a frame."""
    if len(call) == 2:
        return f"{call[0]}\t{call[1]}\n"
    now, recorder, direction, kind, flags, session, link, first, amount, length, document = call
    if document is not None:
        _remember_destination(recorder, link, document)
    key = (direction, kind, session, link)
    columns = recorder.columns.get(key)
    if columns is None:
        columns = _columns(recorder, key)
    if kind == _CLOSED and link:
        recorder.destinations.pop(link, None)
    return f"{now}\t{columns[0]}\t{first}\t{amount}\t{flags}\t{length}\t{columns[1]}\n"


def effect_line(effect: Effect) -> str:
    """An effect of the core in the same columns, without the time."""
    kind = type(effect).__name__
    if isinstance(effect, Append):
        return _line("-", "", "core", f"{kind}:{type(effect.record).__name__}", first=effect.lsn)
    subject: object = effect[0]
    session, link, first, destination = 0, 0, 0, ""
    owner = subject
    if isinstance(subject, CoreProducer | CoreConsumer):
        session, link = subject.session.number, subject.link
        destination, owner = destination_of(subject), subject.session.owner
        first = effect[1] if len(effect) > 1 and isinstance(effect[1], int) else 0
    elif isinstance(subject, CoreSession):
        session, owner = subject.number, subject.owner
    number, application = str(getattr(owner, "number", "-")), str(getattr(owner, "application", ""))
    return _line(number, application, "core", kind, session=session, link=link, first=first, destination=destination)


def _line(
    connection: str, application: str, direction: str, kind: str, *, session: int = 0, link: int = 0, first: int = 0,
    destination: str = "",
) -> str:  # fmt: skip
    before = f"{connection}\t{quoted(application)}\t{direction}\t{kind}\t{session}\t{link}"
    return f"{before}\t{first}\t0\t0\t0\t{quoted(destination)}"


def _remember_destination(recorder: CallRecorder, link: int, document: bytes) -> None:
    """The frame that opens a link names its destination, which later lines repeat."""
    try:
        name = Frame(0, 0, 0, 0, 0, 0, memoryview(document)).json().get("destination")
    except ProtocolError:
        name = None
    if len(recorder.destinations) >= _MOST_CACHED:
        recorder.destinations.clear()
    recorder.destinations[link] = quoted(name[:_MOST_TEXT]) if isinstance(name, str) else '""'
    recorder.columns.clear()


def _columns(recorder: CallRecorder, key: tuple[str, int, int, int]) -> tuple[str, str]:
    """The columns that all lines of one kind about one link have in common."""
    direction, kind, session, link = key
    client = f"{recorder.connection.number}\t{quoted(recorder.connection.application)}"
    columns = (
        f"{client}\t{direction}\t{_NAMES.get(kind, 'END')}\t{session}\t{link}",
        recorder.destinations.get(link, '""'),
    )
    if len(recorder.columns) >= _MOST_CACHED:
        recorder.columns.clear()
    recorder.columns[key] = columns
    return columns
