"""What a spy records of each kind of command: before it runs, after it, and when it fails."""

from __future__ import annotations

from collections import deque
from time import time_ns
from typing import TYPE_CHECKING, Any, Final

from mqlab.broker.server.native.refusal_frames import REFUSALS, reply_wanted
from mqlab.broker.server.trace.detail import More, about, kept
from mqlab.broker.server.trace.records import Subject
from mqlab.broker.server.trace.traced_links import TRACE_QUEUE, Link, Unanswered, destination_of
from mqlab.wire.native.bodies import Payload
from mqlab.wire.native.columns import Value
from mqlab.wire.native.frames import Flag, Frame, Kind, ProtocolError

if TYPE_CHECKING:
    from mqlab.broker.server.trace.operation_recorder import Spy

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
_MOST_SAID: Final = 20


class Sending:
    def __init__(self, spy: Spy) -> None:
        self._spy = spy
        self._links, self._clock, self._extend = spy.links, spy.clock, spy.extend

    def after(self, frame: Frame, payload: Payload) -> None:
        _, flags, _, number, first, _, _ = frame
        link = self._links.get(number) or self._spy.link(number)
        if link is None:
            return
        data, rows, _ = payload
        more = self._spy.message(link, payload, first, flags & _PERSISTENT) if self._spy.detailed else None
        if flags & _CONFIRM and link.answered:
            link.unconfirmed.append((first + rows - 1, link.put, self._clock.now, rows, len(data), more))
        else:
            self._extend((link.put, self._clock.now, time_ns(), rows, len(data), more))

    def failed(self, frame: Frame, fault: Exception) -> None:
        link = self._links.get(frame.link) or self._spy.link(frame.link)
        if link is not None:
            self._spy.failed(link.put, self._clock.now, frame, fault)


class Acknowledging:
    def __init__(self, spy: Spy) -> None:
        self._spy = spy
        self._links, self._clock, self._extend = spy.links, spy.clock, spy.extend

    def before(self, frame: Frame) -> tuple[int, Link, int] | None:
        link = self._links.get(frame.link) or self._spy.link(frame.link)
        return None if link is None else (self._clock.now, link, link.covered(frame.first))

    def after(self, frame: Frame, note: tuple[int, Link, int], _: object) -> None:
        began, link, rows = note
        up_to, room, spy = frame.first, frame.amount, self._spy
        if room:
            link.pushed = True
        link.done += rows
        more: More | None = (spy.high, link.about, up_to, None, room) if spy.detailed else None
        self._extend((link.acknowledge if up_to else link.room, began, time_ns(), rows, 0, more))

    def failed(self, frame: Frame, note: tuple[int, Link, int], fault: Exception) -> None:
        began, link, _ = note
        self._spy.failed(link.acknowledge, began, frame, fault)


class Receiving:
    """A receive by id. What it acknowledges has a record of its own."""

    def __init__(self, spy: Spy) -> None:
        self._spy = spy

    def before(self, frame: Frame) -> tuple[int, Link, int] | None:
        link = self._spy.links.get(frame.link) or self._spy.link(frame.link)
        return None if link is None else (self._spy.clock.now, link, link.covered(frame.first))

    def after(self, frame: Frame, note: tuple[int, Link, int], _: object) -> None:
        began, link, rows = note
        if frame.first:
            self._spy.acknowledged(link, link.acknowledge, began, frame.first, rows, 0)
        link.waiting.append((bytes(frame.payload), link.receive, began, 0, 0, None))

    def failed(self, frame: Frame, note: tuple[int, Link, int], fault: Exception) -> None:
        began, link, rows = note
        if frame.first and link.consumer is not None:
            self._spy.acknowledged(link, link.acknowledge, began, frame.first, rows, 0)
        self._spy.failed(link.receive, began, frame, fault)


Request = tuple[int, Link | None, Link | None, int, int]


class Requesting:
    """A send and a receive, each with its record; all that the consumer was given is done."""

    def __init__(self, spy: Spy) -> None:
        self._spy = spy

    def before(self, frame: Frame) -> Request:
        spy, number = self._spy, frame.amount
        producer = spy.links.get(frame.link) or spy.link(frame.link)
        consumer = spy.links.get(number) or spy.link(number)
        held = None if consumer is None else consumer.consumer
        done = held.next_delivery - 1 if held is not None and held.unacknowledged else 0
        return spy.clock.now, producer, consumer, done, consumer.covered(done) if consumer is not None else 0

    def after(self, frame: Frame, note: Request, payload: Payload) -> None:
        began, producer, consumer, done, rows = note
        spy = self._spy
        if consumer is not None:
            if done:
                spy.acknowledged(consumer, consumer.acknowledge, began, done, rows, 0)
            _, (_, correlation_id) = reply_wanted(payload)
            wanted = str(correlation_id).encode(errors="replace")
            consumer.waiting.append((wanted, consumer.receive, began, 0, 0, None))
        if producer is not None:
            more = spy.message(producer, payload, frame.first, 0) if spy.detailed else None
            spy.extend((producer.put, began, time_ns(), 1, len(payload.data), more))

    def failed(self, frame: Frame, note: Request, fault: Exception) -> None:
        began, producer, consumer, _, _ = note
        if producer is not None:
            self._spy.failed(producer.put, began, frame, fault)
        elif consumer is not None:
            self._spy.failed(consumer.receive, began, frame, fault)


Key = tuple[int, int, int]


class Others:
    """The rarer commands, in one way for all of them."""

    def __init__(self, spy: Spy) -> None:
        self._spy = spy

    def before(self, frame: Frame) -> tuple[Key | None, Unanswered]:
        spy, began = self._spy, self._spy.clock.now
        subject, key, others = self._about(frame)
        messages, size = self._transaction(frame)
        more: More | None = None
        if spy.detailed:
            more = (spy.high, about(frame.session, frame.link), frame.first, None, others)
        unanswered = (None, subject, began, messages, size, more)
        if key is not None:
            # It may be answered before it returns.
            spy.unanswered.setdefault(key, deque()).append(unanswered)
        return key, unanswered

    def after(self, frame: Frame, note: tuple[Key | None, Unanswered], _: object) -> None:
        key, (_, subject, began, _, _, more) = note
        if frame.kind in _ENDING:
            self._spy.end_links(frame)
        if key is None and subject.destination != TRACE_QUEUE:
            rows = frame.amount if frame.kind == Kind.ACKNOWLEDGE_ROWS else 0
            self._spy.extend((subject, began, time_ns(), rows, 0, more))

    def failed(self, frame: Frame, note: tuple[Key | None, Unanswered], fault: Exception) -> None:
        key, (_, subject, began, _, _, _) = note
        if key is not None:
            waiting = self._spy.unanswered[key]
            waiting.pop()
            if not waiting:
                del self._spy.unanswered[key]
        self._spy.failed(subject, began, frame, fault)

    def _about(self, frame: Frame) -> tuple[Subject, Key | None, dict[str, Value]]:
        """What it is, which answer it waits for, and what it says."""
        kind, session, number = frame.kind, frame.session, frame.link
        operation, destination = _OPERATIONS[kind], ""
        watched = self._spy.watched
        known = watched.producers.get(number) or watched.consumers.get(number)
        if known is not None:
            destination = destination_of(known)
        said = _said(frame) if kind in _OPENING or kind == Kind.ASK else {}
        key: Key | None = None
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
        elif kind == Kind.CLOSE and number in watched.producers:
            key = (Kind.CLOSED, 0, number)
        return self._spy.subject(operation, destination), key, said

    def _transaction(self, frame: Frame) -> tuple[int, int]:
        """Messages and bytes that a commit sends."""
        session = self._spy.watched.sessions.get(frame.session)
        if frame.kind != Kind.COMMIT or session is None:
            return 0, 0
        return sum(span.rows for _, span in session.transaction.sends), session.transaction.size


def message_kept(link: Link, payload: Payload, first: int, marks: int, high: int) -> More:
    """What the levels medium and high record of a message."""
    form, data = kept(payload, high)
    return high | form | marks, link.about, first, data, None


def code_of(fault: Exception) -> str:
    return code("refused" if isinstance(fault, REFUSALS) else "failed", str(fault))


def code(word: str, reason: str) -> str:
    return _text(f"{word}: {reason}")


def _said(frame: Frame) -> dict[str, Value]:
    """What a control frame says, as far as it is short; nothing of one that cannot be read."""
    try:
        said: dict[str, Any] = frame.json()
    except ProtocolError:
        return {}
    found = {name[:_TOLD]: _short(value) for name, value in [*said.items()][:_MOST_SAID]}
    return {name: value for name, value in found.items() if value is not None}


def _text(text: str) -> str:
    """Half a character has no place in a record."""
    return text[:_TOLD].encode(errors="replace").decode()


def _short(value: object) -> Value | None:
    if isinstance(value, str):
        return _text(value)
    return value if isinstance(value, bool | int | float) else None
