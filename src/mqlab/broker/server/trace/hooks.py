"""The hooks that record each kind of command: before it runs, after it, and when it fails."""

from collections import deque
from time import time_ns
from typing import Final

from mqlab.broker.server.native.refusal_frames import reply_key
from mqlab.broker.server.trace.detail import RawDetail, detail_prefix
from mqlab.broker.server.trace.recording import MOST_TEXT, AnswerKey, ConnectionRecording, shortened
from mqlab.broker.server.trace.records import RecordLabels
from mqlab.broker.server.trace.traced_links import TRACE_QUEUE, PendingOperation, TracedLink, destination_of
from mqlab.wire.native.bodies import Payload
from mqlab.wire.native.columns import Value
from mqlab.wire.native.frames import Flag, Frame, Kind, ProtocolError

_CONFIRM, _PERSISTENT = int(Flag.CONFIRM), int(Flag.PERSISTENT)
_OPERATIONS: Final[dict[int, str]] = {
    Kind.ACKNOWLEDGE_ROWS: "acknowledge", Kind.CANCEL: "cancel", Kind.COMMIT: "commit", Kind.ROLLBACK: "rollback",
    Kind.OPEN_SESSION: "open", Kind.OPEN_PRODUCER: "open", Kind.OPEN_CONSUMER: "open", Kind.CLOSE: "close",
    Kind.ASK: "ask",
}  # fmt: skip
_OPENING: Final = frozenset((Kind.OPEN_SESSION, Kind.OPEN_PRODUCER, Kind.OPEN_CONSUMER))
# These commands may remove a link, or give its number to a new one.
_ENDING: Final = frozenset((Kind.CANCEL, Kind.CLOSE, Kind.OPEN_PRODUCER, Kind.OPEN_CONSUMER))
_DECISIONS: Final = frozenset(("prepare", "commit", "rollback"))
# Fields of a control frame that a record repeats.
_MOST_FIELDS: Final = 20


class SendHooks:
    def __init__(self, recording: ConnectionRecording) -> None:
        self._recording = recording
        self._links, self._clock, self._extend = recording.links, recording.clock, recording.extend

    def after(self, frame: Frame, payload: Payload) -> None:
        _, flags, _, number, first, _, _ = frame
        recording = self._recording
        link = self._links.get(number) or recording.link(number)
        if link is None:
            return
        data, rows, _ = payload
        detail = recording.message_detail(link, payload, first, flags & _PERSISTENT) if recording.detailed else None
        if flags & _CONFIRM and link.confirms:
            link.unconfirmed.append((first + rows - 1, link.put, self._clock.now, rows, len(data), detail))
        else:
            self._extend((link.put, self._clock.now, time_ns(), rows, len(data), detail))

    def failed(self, frame: Frame, fault: Exception) -> None:
        link = self._links.get(frame.link) or self._recording.link(frame.link)
        if link is not None:
            self._recording.failed(link.put, self._clock.now, frame, fault)


class AcknowledgeHooks:
    def __init__(self, recording: ConnectionRecording) -> None:
        self._recording = recording
        self._links, self._clock, self._extend = recording.links, recording.clock, recording.extend

    def before(self, frame: Frame) -> tuple[int, TracedLink, int] | None:
        link = self._links.get(frame.link) or self._recording.link(frame.link)
        return None if link is None else (self._clock.now, link, link.covered(frame.first))

    def after(self, frame: Frame, note: tuple[int, TracedLink, int], _: object) -> None:
        began, link, rows = note
        up_to, room, recording = frame.first, frame.amount, self._recording
        if room:
            link.had_credit = True
        link.acknowledged_up_to += rows
        detail: RawDetail | None = (recording.high, link.prefix, up_to, None, room) if recording.detailed else None
        self._extend((link.acknowledge if up_to else link.room, began, time_ns(), rows, 0, detail))

    def failed(self, frame: Frame, note: tuple[int, TracedLink, int], fault: Exception) -> None:
        began, link, _ = note
        self._recording.failed(link.acknowledge, began, frame, fault)


class ReceiveHooks:
    """A receive by id. The acknowledgement that the frame carries has a record of its own."""

    def __init__(self, recording: ConnectionRecording) -> None:
        self._recording = recording

    def before(self, frame: Frame) -> tuple[int, TracedLink, int] | None:
        link = self._recording.links.get(frame.link) or self._recording.link(frame.link)
        return None if link is None else (self._recording.clock.now, link, link.covered(frame.first))

    def after(self, frame: Frame, note: tuple[int, TracedLink, int], _: object) -> None:
        began, link, rows = note
        if frame.first:
            self._recording.acknowledged(link, began, frame.first, rows)
        link.receives.append((bytes(frame.payload), link.receive, began, 0, 0, None))

    def failed(self, frame: Frame, note: tuple[int, TracedLink, int], fault: Exception) -> None:
        began, link, rows = note
        if frame.first and link.consumer is not None:
            self._recording.acknowledged(link, began, frame.first, rows)
        self._recording.failed(link.receive, began, frame, fault)


# When it began, producer, consumer, the last delivery id of the consumer, and how many messages that acknowledges.
RequestNote = tuple[int, TracedLink | None, TracedLink | None, int, int]


class RequestHooks:
    """A send and a receive, each with its record. A request also acknowledges all deliveries of its consumer."""

    def __init__(self, recording: ConnectionRecording) -> None:
        self._recording = recording

    def before(self, frame: Frame) -> RequestNote:
        recording, number = self._recording, frame.amount
        producer = recording.links.get(frame.link) or recording.link(frame.link)
        consumer = recording.links.get(number) or recording.link(number)
        receiver = None if consumer is None else consumer.consumer
        up_to = receiver.next_delivery - 1 if receiver is not None and receiver.unacknowledged else 0
        return recording.clock.now, producer, consumer, up_to, consumer.covered(up_to) if consumer is not None else 0

    def after(self, frame: Frame, note: RequestNote, payload: Payload) -> None:
        began, producer, consumer, up_to, rows = note
        recording = self._recording
        if consumer is not None:
            if up_to:
                recording.acknowledged(consumer, began, up_to, rows)
            _, (_, correlation_id) = reply_key(payload)
            key = str(correlation_id).encode(errors="replace")
            consumer.receives.append((key, consumer.receive, began, 0, 0, None))
        if producer is not None:
            detail = recording.message_detail(producer, payload, frame.first, 0) if recording.detailed else None
            recording.extend((producer.put, began, time_ns(), 1, len(payload.data), detail))

    def failed(self, frame: Frame, note: RequestNote, fault: Exception) -> None:
        began, producer, consumer, _, _ = note
        if producer is not None:
            self._recording.failed(producer.put, began, frame, fault)
        elif consumer is not None:
            self._recording.failed(consumer.receive, began, frame, fault)


class OtherHooks:
    """All other commands. They are rare, so one class serves all of them."""

    def __init__(self, recording: ConnectionRecording) -> None:
        self._recording = recording

    def before(self, frame: Frame) -> tuple[AnswerKey | None, PendingOperation[None]]:
        recording, began = self._recording, self._recording.clock.now
        labels, key, fields = self._describe(frame)
        messages, size = self._transaction(frame)
        detail: RawDetail | None = None
        if recording.detailed:
            detail = (recording.high, detail_prefix(frame.session, frame.link), frame.first, None, fields)
        operation = (None, labels, began, messages, size, detail)
        if key is not None:
            # The answer may come before the command returns.
            recording.pending.setdefault(key, deque()).append(operation)
        return key, operation

    def after(self, frame: Frame, note: tuple[AnswerKey | None, PendingOperation[None]], _: object) -> None:
        key, (_, labels, began, _, _, detail) = note
        if frame.kind in _ENDING:
            self._recording.end_links(frame)
        if key is None and labels.destination != TRACE_QUEUE:
            rows = frame.amount if frame.kind == Kind.ACKNOWLEDGE_ROWS else 0
            self._recording.extend((labels, began, time_ns(), rows, 0, detail))

    def failed(self, frame: Frame, note: tuple[AnswerKey | None, PendingOperation[None]], fault: Exception) -> None:
        key, (_, labels, began, _, _, _) = note
        if key is not None:
            operations = self._recording.pending[key]
            operations.pop()
            if not operations:
                del self._recording.pending[key]
        self._recording.failed(labels, began, frame, fault)

    def _describe(self, frame: Frame) -> tuple[RecordLabels, AnswerKey | None, dict[str, Value]]:
        """The labels of the record, the answer that ends the operation, and the fields of the frame."""
        kind, session, number = frame.kind, frame.session, frame.link
        operation, destination = _OPERATIONS[kind], ""
        connection = self._recording.connection
        link = connection.producers.get(number) or connection.consumers.get(number)
        if link is not None:
            destination = destination_of(link)
        fields = _fields(frame) if kind in _OPENING or kind == Kind.ASK else {}
        key: AnswerKey | None = None
        if kind in _OPENING:
            destination = str(fields.pop("destination", ""))
            if kind == Kind.OPEN_CONSUMER:
                fields["room"] = frame.amount
                key = (Kind.OPENED, session, number)
        elif kind == Kind.ASK:
            request, destination = str(fields.get("ask", "")), str(fields.get("name", ""))
            operation = request if request in _DECISIONS else operation
            key = (Kind.ANSWER, frame.first, 0)
        elif kind == Kind.COMMIT:
            key = (Kind.COMMITTED, session, 0)
        elif kind == Kind.ROLLBACK and not (number and frame.amount):
            key = (Kind.ROLLED_BACK, session, number)
        elif kind == Kind.CLOSE and number in connection.producers:
            key = (Kind.CLOSED, 0, number)
        return self._recording.labels(operation, destination), key, fields

    def _transaction(self, frame: Frame) -> tuple[int, int]:
        """Messages and bytes that a commit sends."""
        session = self._recording.connection.sessions.get(frame.session)
        if frame.kind != Kind.COMMIT or session is None:
            return 0, 0
        return sum(span.rows for _, span in session.transaction.sends), session.transaction.size


def _fields(frame: Frame) -> dict[str, Value]:
    """The first fields of a control frame, shortened; none if the frame cannot be read."""
    try:
        document = frame.json()
    except ProtocolError:
        return {}
    fields = {name[:MOST_TEXT]: _scalar(value) for name, value in [*document.items()][:_MOST_FIELDS]}
    return {name: value for name, value in fields.items() if value is not None}


def _scalar(value: object) -> Value | None:
    if isinstance(value, str):
        return shortened(value)
    return value if isinstance(value, bool | int | float) else None
