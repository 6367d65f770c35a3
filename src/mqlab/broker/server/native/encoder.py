"""Encodes effects of the core as frames of the native protocol."""

from abc import ABC, abstractmethod
from typing import Final

from mqlab.broker.core import effects
from mqlab.broker.server.trace.operation_recorder import OperationRecorder
from mqlab.wire.native import frames as native
from mqlab.wire.native.bodies import Buffer
from mqlab.wire.native.frames import Flag, Kind

_MOST_DELIVERY_COUNT: Final = 0xFFFF
_DELIVER, _CONFIRMED = int(Kind.DELIVER), int(Kind.CONFIRM)
_PERSISTENT, _REDELIVERED = int(Flag.PERSISTENT), int(Flag.REDELIVERED)


class EffectEncoder(ABC):
    """The part of a connection that the broker calls when it runs effects."""

    def __init__(self) -> None:
        # Records the connection for the activity trace.
        self.operation_recorder: OperationRecorder | None = None
        # For each consumer: its destination, and the destination that the last ORIGIN frame named.
        self._names: dict[int, str] = {}
        self._origins: dict[int, str] = {}

    def deliver(self, effect: effects.Deliver) -> None:
        consumer, first, span = effect
        link = consumer.link
        origin = span.origin or self._names[link]
        if origin != self._origins[link]:
            self._origins[link] = origin
            self._put(Kind.ORIGIN, 0, 0, link, 0, 0, origin.encode())
        payload = span.encoded()
        flags, delivered = payload.form, span.delivered
        if delivered:
            flags |= _REDELIVERED
            delivered = min(delivered, _MOST_DELIVERY_COUNT)
        if span.persistent:
            flags |= _PERSISTENT
        self._put(_DELIVER, flags, delivered, link, first, payload.rows, payload.data)
        if self.operation_recorder is not None:
            self.operation_recorder.delivered(effect, payload)

    def confirm(self, effect: effects.Confirm) -> None:
        self._write(native.HEADER.pack(0, _CONFIRMED, 0, 0, effect.producer.link, effect.seq, 0))
        if self.operation_recorder is not None:
            self.operation_recorder.confirmed(effect)

    def credit(self, effect: effects.Credit) -> None:
        self._write(native.header(Kind.CREDIT, link=effect.producer.link, amount=effect.size))

    def opened(self, effect: effects.Opened) -> None:
        self._answer_kind(Kind.OPENED, session=effect.consumer.session.number, link=effect.consumer.link)

    def finished(self, effect: effects.Finished) -> None:
        self._answer_kind(Kind.CLOSED, link=effect.producer.link)

    def committed(self, effect: effects.Committed) -> None:
        self._answer_kind(Kind.COMMITTED, session=effect.session.number)

    def rolled_back(self, effect: effects.RolledBack) -> None:
        self._answer_kind(Kind.ROLLED_BACK, session=effect.session.number)

    def taken_back(self, effect: effects.Requeued) -> None:
        self._answer_kind(Kind.ROLLED_BACK, session=effect.consumer.session.number, link=effect.consumer.link)

    def cancelled(self, effect: effects.Cancelled) -> None:
        self._write(native.header(Kind.CANCELLED, link=effect.consumer.link))

    def seen(self, effect: effects.BrowseEnded) -> None:
        self._write(native.header(Kind.SEEN, link=effect.consumer.link))

    def answer(self, effect: effects.Answer) -> None:
        self._write(native.frame(Kind.ANSWER, effect.value, first=effect.number))
        if self.operation_recorder is not None:
            self.operation_recorder.answered(Kind.ANSWER, effect.number, error=str(effect.value.get("error", "")))

    def _answer_kind(self, kind: Kind, *, session: int = 0, link: int = 0) -> None:
        self._write(native.header(kind, session=session, link=link))
        if self.operation_recorder is not None:
            self.operation_recorder.answered(kind, session, link)

    # Output

    @abstractmethod
    def _put(self, kind: int, flags: int, session: int, link: int, first: int, amount: int, payload: Buffer) -> None:
        """Queue a frame."""

    @abstractmethod
    def _write(self, data: Buffer) -> None:
        """Queue a packed frame."""
