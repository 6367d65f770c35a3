"""Records what one connection does. It stands around the connection's commands, and hears of its answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import time_ns
from typing import Any, Final, NamedTuple, Protocol

from mqlab.broker.core.effects import Confirm, Deliver
from mqlab.broker.core.flow import OverdrawnError
from mqlab.broker.core.links import Consumer, Producer, Session
from mqlab.broker.server.saying import REFUSALS, reply_wanted
from mqlab.broker.server.tracing.detail import HIGH, about, kept
from mqlab.broker.server.tracing.links import TRACE_QUEUE, Link, Unanswered, destination_of
from mqlab.broker.server.tracing.records import Rows, Subject
from mqlab.broker.settings import Level
from mqlab.wire.bodies import MalformedPayloadError, Payload
from mqlab.wire.columns import Value
from mqlab.wire.native import FORM, Flag, Frame, Kind, ProtocolError
from mqlab.wire.payload import payload_of

Command = Callable[[Frame], object]

_FAULTS: Final = (*REFUSALS, ProtocolError, MalformedPayloadError, OverdrawnError)
_CONFIRM, _PERSISTENT = int(Flag.CONFIRM), int(Flag.PERSISTENT)
_OPERATIONS: Final[dict[int, str]] = {
    Kind.ACKNOWLEDGE_ROWS: "acknowledge", Kind.CANCEL: "cancel", Kind.COMMIT: "commit", Kind.ROLLBACK: "rollback",
    Kind.OPEN_SESSION: "open", Kind.OPEN_PRODUCER: "open", Kind.OPEN_CONSUMER: "open", Kind.CLOSE: "close",
    Kind.ASK: "ask",
}  # fmt: skip
_OPENING: Final = frozenset((Kind.OPEN_SESSION, Kind.OPEN_PRODUCER, Kind.OPEN_CONSUMER))
# After these a link may be another one, or none.
_ENDING: Final = frozenset((Kind.CANCEL, Kind.CLOSE, Kind.OPEN_PRODUCER, Kind.OPEN_CONSUMER))
_DECISIONS: Final = frozenset(("prepare", "commit", "rollback"))
# Of what a client says, a record repeats no more.
_TOLD: Final = 255
_GONE: Final = "failed: the connection is gone"


class Clock(Protocol):
    """When that came which is dealt with now, in ns since 1970: to ask for the time costs more than to record it."""

    now: int


class Watched(NamedTuple):
    """The connection as a spy sees it. `send` is the command that sends, and says what it sent."""

    number: int
    application: str
    sessions: dict[int, Session]
    producers: dict[int, Producer]
    consumers: dict[int, Consumer]
    commands: dict[int, Command]
    send: Callable[[Frame], Payload]
    clock: Clock


class Spy:
    """`level` may change at any time; what is under way then is recorded as it began. `gone` hears of the end."""

    def __init__(self, watched: Watched, rows: Rows, level: Level, gone: Callable[[], None]) -> None:
        self._watched = watched
        self._gone = gone
        self._extend = rows.extend
        self.level = level
        self._links: dict[int, Link] = {}
        # What waits for an answer other than of a link, by the kind of the answer and what it is about.
        self._unanswered: dict[tuple[int, int, int], deque[Unanswered]] = {}
        self._plain = plain = watched.commands
        self._plain_send, self._plain_acknowledge = watched.send, plain[Kind.ACKNOWLEDGE]
        self._clock = watched.clock
        special = {
            Kind.SEND: self._send, Kind.ACKNOWLEDGE: self._acknowledge, Kind.RECEIVE: self._receive,
            Kind.REQUEST: self._request,
        }  # fmt: skip
        self.commands: dict[int, Command] = {kind: special.get(Kind(kind), self._other) for kind in plain}

    @property
    def level(self) -> Level:
        return self._level

    @level.setter
    def level(self, level: Level) -> None:
        self._level = level
        self._detailed, self._high = level != "low", HIGH if level == "high" else 0

    # Commands

    def _send(self, frame: Frame) -> None:
        began = self._clock.now
        link = self._links.get(frame.link) or self._link(frame.link)
        try:
            payload = self._plain_send(frame)
        except _FAULTS as error:
            if link is not None:
                self._failed(link.put, began, frame, error)
            raise
        if link is None:
            return
        data, rows, _ = payload
        flags, more = frame.flags, None
        if self._detailed:
            form, message = kept(payload, self._high)
            more = (self._high | form | flags & _PERSISTENT, link.about, frame.first, message, None)
        if flags & _CONFIRM and link.answered:
            link.unconfirmed.append((frame.first + rows - 1, link.put, began, rows, len(data), more))
        else:
            self._extend((link.put, began, time_ns(), rows, len(data), more))

    def _acknowledge(self, frame: Frame) -> None:
        began = self._clock.now
        link = self._links.get(frame.link) or self._link(frame.link)
        try:
            self._plain_acknowledge(frame)
        except _FAULTS as error:
            if link is not None:
                self._failed(link.acknowledge, began, frame, error)
            raise
        if link is None:
            return
        up_to, room = frame.first, frame.amount
        rows = max(0, up_to - link.done)
        link.done += rows
        if room:
            link.pushed = True
        more = (self._high, link.about, up_to, None, room) if self._detailed else None
        self._extend((link.acknowledge if up_to else link.room, began, time_ns(), rows, 0, more))

    def _receive(self, frame: Frame) -> None:
        began = self._clock.now
        number = frame.link
        if frame.first:
            # What is done has a record of its own.
            self._acknowledge(Frame(Kind.ACKNOWLEDGE, 0, 0, number, frame.first, 0, b""))
            frame = frame._replace(first=0)
        link = self._links.get(number) or self._link(number)
        try:
            self._plain[Kind.RECEIVE](frame)
        except _FAULTS as error:
            if link is not None:
                self._failed(link.receive, began, frame, error)
            raise
        if link is not None:
            link.waiting.append((bytes(frame.payload), link.receive, began, 0, 0, None))

    def _request(self, frame: Frame) -> None:
        """Both things that it is, each with its record."""
        consumer = self._watched.consumers.get(frame.amount)
        _, (_, wanted) = reply_wanted(payload_of((bytes(frame.payload), 1, frame.flags & FORM)))
        done = consumer.next_delivery - 1 if consumer is not None and consumer.unacknowledged else 0
        self._receive(Frame(Kind.RECEIVE, 0, 0, frame.amount, done, 0, str(wanted).encode()))
        self._send(frame._replace(kind=Kind.SEND, amount=1))

    def _other(self, frame: Frame) -> None:
        """The rarer ones, in one way for all of them."""
        began = self._clock.now
        subject, key, others = self._about(frame)
        messages, size = self._transaction(frame)
        more = None
        if self._detailed:
            more = (self._high, about(frame.session, frame.link), frame.first, None, others)
        if key is not None:
            self._unanswered.setdefault(key, deque()).append((None, subject, began, messages, size, more))
        try:
            self._plain[frame.kind](frame)
        except _FAULTS as error:
            if key is not None:
                self._unanswered[key].pop()
            self._failed(subject, began, frame, error)
            raise
        if frame.kind in _ENDING:
            self._ended_links(frame)
        if key is None and subject.destination != TRACE_QUEUE:
            rows = frame.amount if frame.kind == Kind.ACKNOWLEDGE_ROWS else 0
            self._extend((subject, began, time_ns(), rows, 0, more))

    # Answers

    def delivered(self, effect: Deliver, payload: Payload) -> None:
        """Messages left; unless they were asked for, that began with whatever made them leave."""
        consumer, first, span = effect
        link = self._links.get(consumer.link) or self._link(consumer.link)
        if link is None:
            return
        subject, began = link.get, self._clock.now
        if link.waiting and (asked := link.asked_for(payload)) is not None:
            _, subject, began, _, _, _ = asked
        more = None
        if self._detailed:
            others: dict[str, Value] | None = {"delivered": span.delivered} if span.delivered else None
            form, message = kept(payload, self._high)
            marks = self._high | form | (_PERSISTENT if span.persistent else 0)
            more = (marks, link.about, first, message, others)
        self._extend((subject, began, time_ns(), payload.rows, len(payload.data), more))

    def confirmed(self, effect: Confirm) -> None:
        link = self._links.get(effect.producer.link)
        if link is None:
            return
        now, waiting = time_ns(), link.unconfirmed
        while waiting and waiting[0][0] <= effect.seq:
            _, subject, began, rows, size, more = waiting.popleft()
            self._extend((subject, began, now, rows, size, more))

    def answered(self, kind: Kind, number: int, link: int = 0, error: str = "") -> None:
        """What was asked for of a session, a link or (a question) by a number has its answer."""
        found = self._unanswered.get((kind, number, link))
        if found:
            one = found.popleft()
            if not found:
                del self._unanswered[kind, number, link]
            self._finish(one, _code("refused", error) if error else "ok")
            if kind == Kind.CLOSED:
                self._links.pop(link, None)

    # The connection

    def connected(self, since: int) -> None:
        self._extend((self._subject("connect"), since, time_ns(), 0, 0, None))

    def disconnected(self, began: int) -> None:
        for found in self._unanswered.values():
            for one in found:
                self._finish(one, _GONE)
        for link in self._links.values():
            self._give_up(link, _GONE)
        self._extend((self._subject("disconnect"), began, time_ns(), 0, 0, None))
        self._gone()

    # The parts

    def _subject(self, operation: str, destination: str = "") -> Subject:
        return Subject(self._watched.number, self._watched.application, operation, destination)

    def _link(self, number: int) -> Link | None:
        """None: there is none of that number, or none that is recorded."""
        found = self._watched.producers.get(number) or self._watched.consumers.get(number)
        if found is None or destination_of(found) == TRACE_QUEUE:
            return None
        link = self._links[number] = Link(self._watched.number, self._watched.application, found)
        return link

    def _about(self, frame: Frame) -> tuple[Subject, tuple[int, int, int] | None, dict[str, Value]]:
        """Of one of the rarer commands: what it is, which answer it waits for, and what it says."""
        kind, session, number = frame.kind, frame.session, frame.link
        operation, destination = _OPERATIONS[kind], ""
        known = self._watched.producers.get(number) or self._watched.consumers.get(number)
        if known is not None:
            destination = destination_of(known)
        said = _said(frame) if kind in _OPENING or kind == Kind.ASK else {}
        key: tuple[int, int, int] | None = None
        if kind in _OPENING:
            destination = str(said.pop("destination", ""))
            if kind == Kind.OPEN_CONSUMER:
                said["room"] = frame.amount
                key = (Kind.OPENED, session, number)
        elif kind == Kind.ASK:
            question, destination = str(said.get("ask", "")), str(said.get("name", ""))
            operation = question if question in _DECISIONS else operation
            key = (Kind.ANSWER, frame.first, 0)
        elif kind == Kind.COMMIT:
            key = (Kind.COMMITTED, session, 0)
        elif kind == Kind.ROLLBACK and not (number and frame.amount):
            key = (Kind.ROLLED_BACK, session, number)
        elif kind == Kind.CLOSE and number in self._watched.producers:
            key = (Kind.CLOSED, 0, number)
        return self._subject(operation, destination), key, said

    def _transaction(self, frame: Frame) -> tuple[int, int]:
        """Messages and bytes that a commit sends."""
        session = self._watched.sessions.get(frame.session)
        if frame.kind != Kind.COMMIT or session is None:
            return 0, 0
        return sum(span.rows for _, span in session.transaction.sends), session.transaction.size

    def _ended_links(self, frame: Frame) -> None:
        """A receive was given up, a link or a session was closed, or a number has a new link."""
        if frame.kind == Kind.CANCEL:
            link = self._links.get(frame.link)
            while link is not None and link.waiting:
                self._finish(link.waiting.popleft(), "cancelled")
            return
        producers, consumers = self._watched.producers, self._watched.consumers
        for number in [one for one in self._links if one not in producers and one not in consumers]:
            # A producer is closed when all that it sent is confirmed, and its close is answered.
            if (Kind.CLOSED, 0, number) not in self._unanswered:
                self._give_up(self._links.pop(number), "closed")
        if frame.kind != Kind.CLOSE and frame.link in self._links:
            self._give_up(self._links.pop(frame.link), "closed")

    def _give_up(self, link: Link, code: str) -> None:
        for waiting in (link.unconfirmed, link.waiting):
            while waiting:
                self._finish(waiting.popleft(), code)

    def _finish(self, one: Unanswered, code: str) -> None:
        _, subject, began, rows, size, more = one
        if code != "ok":
            subject, rows, size = subject.but(code), 0, 0
        if subject.destination != TRACE_QUEUE:
            self._extend((subject, began, time_ns(), rows, size, more))

    def _failed(self, subject: Subject, began: int, frame: Frame, error: Exception) -> None:
        word = "refused" if isinstance(error, REFUSALS) else "failed"
        more = None
        if self._detailed:
            more = (self._high, about(frame.session, frame.link), frame.first, None, None)
        self._extend((subject.but(_code(word, str(error))), began, time_ns(), 0, 0, more))


def _said(frame: Frame) -> dict[str, Value]:
    """What a control frame says, as far as it is short; nothing of one that cannot be read."""
    try:
        said: dict[str, Any] = frame.json()
    except ProtocolError:
        return {}
    found = {name[:_TOLD]: _short(value) for name, value in [*said.items()][:20]}
    return {name: value for name, value in found.items() if value is not None}


def _code(word: str, reason: str) -> str:
    return _text(f"{word}: {reason}")


def _text(text: str) -> str:
    """Half a character has no place in a record."""
    return text[:_TOLD].encode(errors="replace").decode()


def _short(value: object) -> Value | None:
    if isinstance(value, str):
        return _text(value)
    return value if isinstance(value, bool | int | float) else None
