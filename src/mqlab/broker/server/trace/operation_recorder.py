"""Records the operations of one connection: hooks around its commands, and calls when the broker answers."""

from collections.abc import Callable
from time import time_ns
from typing import Final

from mqlab.broker.core.effects import Confirm, Deliver
from mqlab.broker.server.trace.detail import RawDetail
from mqlab.broker.server.trace.hooks import AcknowledgeHooks, OtherHooks, ReceiveHooks, RequestHooks, SendHooks
from mqlab.broker.server.trace.isolation import Command, Hooks, ObserverErrors, isolated, observed, observed_later
from mqlab.broker.server.trace.recording import ConnectionRecording, TracedConnection, result_code
from mqlab.broker.server.trace.records import RawRecords
from mqlab.broker.settings import Level
from mqlab.wire.native.bodies import Payload
from mqlab.wire.native.columns import Value
from mqlab.wire.native.frames import Flag, Kind

_PERSISTENT: Final = int(Flag.PERSISTENT)
_CONNECTION_LOST: Final = "failed: the connection is gone"


class OperationRecorder(ConnectionRecording):
    """`commands` are those of the connection, observed. It calls `ended` when the connection is closed."""

    def __init__(
        self, connection: TracedConnection, records: RawRecords, level: Level, ended: Callable[[], None],
        errors: ObserverErrors,
    ) -> None:  # fmt: skip
        super().__init__(connection, records, level, errors)
        self._ended = ended
        hooks: dict[int, Hooks] = {
            Kind.ACKNOWLEDGE: AcknowledgeHooks(self), Kind.RECEIVE: ReceiveHooks(self),
            Kind.REQUEST: RequestHooks(self),
        }  # fmt: skip
        others = OtherHooks(self)
        self.commands: dict[int, Command] = {
            kind: observed(command, hooks.get(kind, others), errors) for kind, command in connection.commands.items()
        }
        self.commands[Kind.SEND] = observed_later(connection.commands[Kind.SEND], SendHooks(self), errors)

    # Answers

    @isolated
    def delivered(self, effect: Deliver, payload: Payload) -> None:
        """A delivery begins with the receive that asked for it or, without one, with the current turn."""
        consumer, first, span = effect
        link = self.links.get(consumer.link) or self.link(consumer.link)
        if link is None:
            return
        labels, began = link.get, self.clock.now
        if link.receives and (receive := link.take_receive(payload)) is not None:
            _, labels, began, _, _, _ = receive
        detail: RawDetail | None = None
        if self.detailed:
            extra: dict[str, Value] | None = {"delivered": span.delivered} if span.delivered else None
            persistent = _PERSISTENT if span.persistent else 0
            marks, prefix, _, message, _ = self.message_detail(link, payload, first, persistent)
            detail = (marks, prefix, first, message, extra)
        self.extend((labels, began, time_ns(), payload.rows, len(payload.data), detail))

    @isolated
    def confirmed(self, effect: Confirm) -> None:
        link = self.links.get(effect.producer.link)
        if link is None:
            return
        now, unconfirmed = time_ns(), link.unconfirmed
        while unconfirmed and unconfirmed[0][0] <= effect.seq:
            _, labels, began, rows, size, detail = unconfirmed.popleft()
            self.extend((labels, began, now, rows, size, detail))

    @isolated
    def answered(self, kind: Kind, number: int, link: int = 0, error: str = "") -> None:
        """`number` is that of a session or of an admin request."""
        operations = self.pending.get((kind, number, link))
        if operations:
            operation = operations.popleft()
            if not operations:
                del self.pending[kind, number, link]
            self._finish(operation, result_code("refused", error) if error else "ok")
            if kind == Kind.CLOSED:
                self.links.pop(link, None)

    # The connection

    @isolated
    def connected(self, since: int) -> None:
        self.extend((self.labels("connect"), since, time_ns(), 0, 0, None))

    def disconnected(self, began: int) -> None:
        self._record_end(began)
        self._ended()
        # They refer to this object: without them it needs no garbage collection.
        self.commands = {}

    @isolated
    def _record_end(self, began: int) -> None:
        for operations in self.pending.values():
            for operation in operations:
                self._finish(operation, _CONNECTION_LOST)
        for link in self.links.values():
            self._finish_link(link, _CONNECTION_LOST)
        self.extend((self.labels("disconnect"), began, time_ns(), 0, 0, None))
