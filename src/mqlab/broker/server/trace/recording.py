"""The state of the recorder of one connection, and how it writes a record. `OperationRecorder` and its hooks use it."""

from collections import deque
from time import time_ns
from typing import Final, NamedTuple, Protocol

from mqlab.broker.core.model.sessions import CoreConsumer, CoreProducer, CoreSession
from mqlab.broker.server.native.refusal_frames import REFUSALS
from mqlab.broker.server.trace.detail import HIGH, RawDetail, detail_prefix, kept_message
from mqlab.broker.server.trace.isolation import Command, ObserverErrors
from mqlab.broker.server.trace.records import RawRecords, RecordLabels
from mqlab.broker.server.trace.traced_links import TRACE_QUEUE, PendingOperation, TracedLink, destination_of
from mqlab.broker.settings import Level
from mqlab.wire.native.bodies import Payload
from mqlab.wire.native.frames import Frame, Kind

# Characters of a client's text that a record repeats.
MOST_TEXT: Final = 255

# The answer that an operation waits for: its kind, the number of a session or of an admin request, and a link.
AnswerKey = tuple[int, int, int]


class Clock(Protocol):
    """`now` is when the current turn of the broker began, in ns since 1970. Reading it is cheaper than `time_ns`."""

    now: int


class TracedConnection(NamedTuple):
    """A connection as its recorder sees it. The commands that send return the payload that they sent."""

    number: int
    application: str
    sessions: dict[int, CoreSession]
    producers: dict[int, CoreProducer]
    consumers: dict[int, CoreConsumer]
    commands: dict[int, Command]
    clock: Clock


class ConnectionRecording:
    """`level` may change at any time; an operation that is under way is recorded at the level at which it began."""

    def __init__(self, connection: TracedConnection, records: RawRecords, level: Level, errors: ObserverErrors) -> None:
        self.connection = connection
        self.clock = connection.clock
        self.errors = errors
        self.extend = records.extend
        self.level = level
        self.links: dict[int, TracedLink] = {}
        # Operations that wait for an answer, other than those of a link.
        self.pending: dict[AnswerKey, deque[PendingOperation[None]]] = {}

    @property
    def level(self) -> Level:
        return self._level

    @level.setter
    def level(self, level: Level) -> None:
        self._level = level
        self.detailed, self.high = level != "low", HIGH if level == "high" else 0

    def labels(self, operation: str, destination: str = "") -> RecordLabels:
        return RecordLabels(self.connection.number, self.connection.application, operation, destination)

    def link(self, number: int) -> TracedLink | None:
        """None: the connection has no such link, or the link reads the trace itself."""
        core_link = self.connection.producers.get(number) or self.connection.consumers.get(number)
        if core_link is None or destination_of(core_link) == TRACE_QUEUE:
            return None
        link = self.links[number] = TracedLink(self.connection.number, self.connection.application, core_link)
        return link

    def message_detail(self, link: TracedLink, payload: Payload, first: int, marks: int) -> RawDetail:
        """The details of a message that the levels medium and high record."""
        form, data = kept_message(payload, self.high)
        return self.high | form | marks, link.prefix, first, data, None

    def acknowledged(self, link: TracedLink, began: int, up_to: int, rows: int) -> None:
        link.acknowledged_up_to += rows
        detail: RawDetail | None = (self.high, link.prefix, up_to, None, 0) if self.detailed else None
        self.extend((link.acknowledge, began, time_ns(), rows, 0, detail))

    def failed(self, labels: RecordLabels, began: int, frame: Frame, fault: Exception) -> None:
        detail: RawDetail | None = None
        if self.detailed:
            detail = (self.high, detail_prefix(frame.session, frame.link), frame.first, None, None)
        code = result_code("refused" if isinstance(fault, REFUSALS) else "failed", str(fault))
        self.extend((labels.with_code(code), began, time_ns(), 0, 0, detail))

    def end_links(self, frame: Frame) -> None:
        """The client cancelled a receive, closed a link or a session, or gave the number of a link to a new one."""
        if frame.kind == Kind.CANCEL:
            link = self.links.get(frame.link)
            while link is not None and link.receives:
                self._finish(link.receives.popleft(), "cancelled")
            return
        producers, consumers = self.connection.producers, self.connection.consumers
        for number in [number for number in self.links if number not in producers and number not in consumers]:
            # The broker answers the close of a producer when it has confirmed all its sends.
            if (Kind.CLOSED, 0, number) not in self.pending:
                self._finish_link(self.links.pop(number), "closed")
        if frame.kind != Kind.CLOSE and frame.link in self.links:
            self._finish_link(self.links.pop(frame.link), "closed")

    def _finish_link(self, link: TracedLink, code: str) -> None:
        for operations in (link.unconfirmed, link.receives):
            while operations:
                self._finish(operations.popleft(), code)

    def _finish(self, operation: PendingOperation[object], code: str) -> None:
        _, labels, began, rows, size, detail = operation
        if code != "ok":
            labels, rows, size = labels.with_code(code), 0, 0
        if labels.destination != TRACE_QUEUE:
            self.extend((labels, began, time_ns(), rows, size, detail))


def result_code(word: str, reason: str) -> str:
    return shortened(f"{word}: {reason}")


def shortened(text: str) -> str:
    """At most MOST_TEXT characters; UTF-8 cannot encode half of a surrogate pair, so it becomes a question mark."""
    return text[:MOST_TEXT].encode(errors="replace").decode()
