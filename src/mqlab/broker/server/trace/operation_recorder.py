"""Records what one connection does. It stands around the connection's commands, and hears of its answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import time_ns
from typing import Final, NamedTuple, Protocol

from mqlab.broker.core.effects import Confirm, Deliver
from mqlab.broker.core.model.sessions import Consumer, Producer, Session
from mqlab.broker.server.trace.detail import HIGH, More, about
from mqlab.broker.server.trace.hooks import (
    Acknowledging,
    Key,
    Others,
    Receiving,
    Requesting,
    Sending,
    code,
    code_of,
    message_kept,
)
from mqlab.broker.server.trace.isolation import Command, Hooks, ObserverErrors, isolated, observed, observed_later
from mqlab.broker.server.trace.records import Rows, Subject
from mqlab.broker.server.trace.traced_links import TRACE_QUEUE, Link, Unanswered, destination_of
from mqlab.broker.settings import Level
from mqlab.wire.native.bodies import Payload
from mqlab.wire.native.columns import Value
from mqlab.wire.native.frames import Flag, Frame, Kind

_PERSISTENT: Final = int(Flag.PERSISTENT)
_GONE: Final = "failed: the connection is gone"


class Clock(Protocol):
    """When that came which is dealt with now, in ns since 1970: to ask for the time costs more than to record it."""

    now: int


class Watched(NamedTuple):
    """The connection as a spy sees it. The commands that send return what they sent."""

    number: int
    application: str
    sessions: dict[int, Session]
    producers: dict[int, Producer]
    consumers: dict[int, Consumer]
    commands: dict[int, Command]
    clock: Clock


class Spy:
    """`level` may change at any time; what is under way then is recorded as it began. `gone` hears of the end."""

    def __init__(
        self, watched: Watched, rows: Rows, level: Level, gone: Callable[[], None], errors: ObserverErrors
    ) -> None:
        self.watched = watched
        self.clock = watched.clock
        self.errors = errors
        self.extend = rows.extend
        self._gone = gone
        self.level = level
        self.links: dict[int, Link] = {}
        # What waits for an answer other than of a link, by the kind of the answer and what it is about.
        self.unanswered: dict[Key, deque[Unanswered]] = {}
        hooks: dict[int, Hooks] = {
            Kind.ACKNOWLEDGE: Acknowledging(self), Kind.RECEIVE: Receiving(self), Kind.REQUEST: Requesting(self),
        }  # fmt: skip
        others = Others(self)
        self.commands: dict[int, Command] = {
            kind: observed(command, hooks.get(kind, others), errors) for kind, command in watched.commands.items()
        }
        self.commands[Kind.SEND] = observed_later(watched.commands[Kind.SEND], Sending(self), errors)

    @property
    def level(self) -> Level:
        return self._level

    @level.setter
    def level(self, level: Level) -> None:
        self._level = level
        self.detailed, self.high = level != "low", HIGH if level == "high" else 0

    # Answers

    @isolated
    def delivered(self, effect: Deliver, payload: Payload) -> None:
        """Messages left; unless they were asked for, that began with whatever made them leave."""
        consumer, first, span = effect
        link = self.links.get(consumer.link) or self.link(consumer.link)
        if link is None:
            return
        subject, began = link.get, self.clock.now
        if link.waiting and (asked := link.asked_for(payload)) is not None:
            _, subject, began, _, _, _ = asked
        more: More | None = None
        if self.detailed:
            others: dict[str, Value] | None = {"delivered": span.delivered} if span.delivered else None
            marks, begin, _, message, _ = self.message(link, payload, first, _PERSISTENT if span.persistent else 0)
            more = (marks, begin, first, message, others)
        self.extend((subject, began, time_ns(), payload.rows, len(payload.data), more))

    @isolated
    def confirmed(self, effect: Confirm) -> None:
        link = self.links.get(effect.producer.link)
        if link is None:
            return
        now, waiting = time_ns(), link.unconfirmed
        while waiting and waiting[0][0] <= effect.seq:
            _, subject, began, rows, size, more = waiting.popleft()
            self.extend((subject, began, now, rows, size, more))

    @isolated
    def answered(self, kind: Kind, number: int, link: int = 0, error: str = "") -> None:
        """What was asked for of a session, a link or (a question) by a number has its answer."""
        found = self.unanswered.get((kind, number, link))
        if found:
            one = found.popleft()
            if not found:
                del self.unanswered[kind, number, link]
            self._finish(one, code("refused", error) if error else "ok")
            if kind == Kind.CLOSED:
                self.links.pop(link, None)

    # The connection

    @isolated
    def connected(self, since: int) -> None:
        self.extend((self.subject("connect"), since, time_ns(), 0, 0, None))

    def disconnected(self, began: int) -> None:
        self._record_end(began)
        self._gone()

    @isolated
    def _record_end(self, began: int) -> None:
        for found in self.unanswered.values():
            for one in found:
                self._finish(one, _GONE)
        for link in self.links.values():
            self._give_up(link, _GONE)
        self.extend((self.subject("disconnect"), began, time_ns(), 0, 0, None))

    # For the hooks of commands

    def subject(self, operation: str, destination: str = "") -> Subject:
        return Subject(self.watched.number, self.watched.application, operation, destination)

    def link(self, number: int) -> Link | None:
        """None: there is none of that number, or none that is recorded."""
        found = self.watched.producers.get(number) or self.watched.consumers.get(number)
        if found is None or destination_of(found) == TRACE_QUEUE:
            return None
        link = self.links[number] = Link(self.watched.number, self.watched.application, found)
        return link

    def message(self, link: Link, payload: Payload, first: int, marks: int) -> More:
        return message_kept(link, payload, first, marks, self.high)

    def acknowledged(self, link: Link, subject: Subject, began: int, up_to: int, rows: int, room: int) -> None:
        link.done += rows
        more: More | None = (self.high, link.about, up_to, None, room) if self.detailed else None
        self.extend((subject, began, time_ns(), rows, 0, more))

    def failed(self, subject: Subject, began: int, frame: Frame, fault: Exception) -> None:
        more: More | None = None
        if self.detailed:
            more = (self.high, about(frame.session, frame.link), frame.first, None, None)
        self.extend((subject.but(code_of(fault)), began, time_ns(), 0, 0, more))

    def end_links(self, frame: Frame) -> None:
        """A receive was given up, a link or a session was closed, or a number has a new link."""
        if frame.kind == Kind.CANCEL:
            link = self.links.get(frame.link)
            while link is not None and link.waiting:
                self._finish(link.waiting.popleft(), "cancelled")
            return
        producers, consumers = self.watched.producers, self.watched.consumers
        for number in [one for one in self.links if one not in producers and one not in consumers]:
            # A producer is closed when all that it sent is confirmed, and its close is answered.
            if (Kind.CLOSED, 0, number) not in self.unanswered:
                self._give_up(self.links.pop(number), "closed")
        if frame.kind != Kind.CLOSE and frame.link in self.links:
            self._give_up(self.links.pop(frame.link), "closed")

    # The parts

    def _give_up(self, link: Link, reason: str) -> None:
        for waiting in (link.unconfirmed, link.waiting):
            while waiting:
                self._finish(waiting.popleft(), reason)

    def _finish(self, one: Unanswered, reason: str) -> None:
        _, subject, began, rows, size, more = one
        if reason != "ok":
            subject, rows, size = subject.but(reason), 0, 0
        if subject.destination != TRACE_QUEUE:
            self.extend((subject, began, time_ns(), rows, size, more))
