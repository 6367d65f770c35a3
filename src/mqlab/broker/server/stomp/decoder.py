"""Decodes frames of a STOMP client into commands for the native connection."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from mqlab.broker.core.model.destination_names import QUEUE, TEMPORARY, BadNameError
from mqlab.broker.server.adapter.connection import Action
from mqlab.broker.server.adapter.producers import PLAIN
from mqlab.broker.server.adapter.receipts import PendingReceipts
from mqlab.broker.server.adapter.state_table import resolved
from mqlab.broker.server.stomp.components import StompComponents
from mqlab.broker.server.stomp.handshake import parse_connect
from mqlab.broker.server.stomp.messages.headers import CORRELATION_ID, SendContext
from mqlab.broker.server.stomp.messages.packing import BatchKey, SendBatch, batch_key
from mqlab.broker.server.stomp.state_table import TABLE, StompStage
from mqlab.broker.server.stomp.subscribe_headers import durable_name, parse_subscribe
from mqlab.broker.server.stomp.subscriptions import Outcome
from mqlab.wire.native.columns import PROPERTY
from mqlab.wire.native.frames import Kind
from mqlab.wire.stomp.frames import StompError, StompFrame
from mqlab.wire.stomp.runs import FrameRun

# Headers whose values may differ between frames that are handled together.
VARYING: Final = frozenset(("receipt", "id", "message-id", *CORRELATION_ID))
# Headers that an ACK or NACK of each version must have; the first names the message.
_SETTLED_BY: Final = {"1.0": ("message-id",), "1.1": ("message-id", "subscription"), "1.2": ("id",)}
# Headers that a client uses as properties may differ, too; the decoder remembers this many.
_MOST_PROPERTIES: Final = 64
_TEMPORARY_QUEUE: Final = f"{QUEUE}:{TEMPORARY}"
_OPEN: Final = StompStage.OPEN
_CONNECT_EXPECTED: Final = "the first frame must be CONNECT or STOMP, and well formed"


class StompDecoder:
    def __init__(self, components: StompComponents) -> None:
        self._components = components
        self._batch: SendBatch | None = None
        # Receipts that are due when the native connection has the commands.
        self._due_when_sent: list[PendingReceipts[str]] = []
        # Headers and batch key of the last message.
        self._last_headers: Mapping[str, str] = {}
        self._last_key = BatchKey("", "", False, ())
        # Headers that this client uses as properties.
        self._properties: set[str] = set()

    @property
    def waits(self) -> bool:
        """Whether no more frames are handled: the login is not done, or the client has sent DISCONNECT."""
        return self._components.stage not in _ROWS

    @property
    def is_finished(self) -> bool:
        """The client has sent DISCONNECT, and all earlier commands are done."""
        return self._components.stage is StompStage.ENDING and self._components.receipts.idle

    def adds_to_batch(self, frame: StompFrame | FrameRun) -> bool:
        """Add a SEND to the current batch. Return False if the frame does not belong to it. Raises StompError."""
        if frame.command != "SEND" or self._components.stage is not _OPEN:
            return False
        if self._batch is None:
            self._batch = self._begin_batch(frame)
            return True
        return self._batch.add(frame)

    def actions(self, frame: StompFrame | FrameRun) -> list[Action]:
        """The actions for a frame that does not belong to the current batch, which goes first. Raises StompError."""
        handle = _ROWS[self._components.stage].get(frame.command)
        if handle is StompDecoder._begin_batch:
            following = self._begin_batch(frame)
            actions, self._batch = self.finish_batch(), following
            return actions
        actions = self.finish_batch()
        if handle is StompDecoder._settle:
            # Many acknowledgements are handled together.
            return [*actions, partial(self._settle, frame)]
        return actions + [partial(self._handle, single) for single in _frames(frame)]

    def _begin_batch(self, frame: StompFrame | FrameRun) -> SendBatch:
        """Raises StompError."""
        if frame.headers is self._last_headers:
            # The splitter has recognized the head of the last message and reuses its headers.
            return SendBatch(self._last_key, frame)
        key = batch_key(frame)
        self._last_headers, self._last_key = frame.headers, key
        properties = {column.header for column in key.columns if column.name.startswith(PROPERTY)}
        if not properties <= self._properties and len(self._properties) < _MOST_PROPERTIES:
            self._properties |= properties
            self._components.socket.set_varying_headers(VARYING | self._properties)
        return SendBatch(key, frame)

    def finish_batch(self) -> list[Action]:
        """The action that sends the current batch."""
        batch, self._batch = self._batch, None
        return [] if batch is None else [partial(self._send, batch)]

    def commands_sent(self) -> None:
        """The native connection has all commands."""
        done, self._due_when_sent = self._due_when_sent, []
        for pending in done:
            self._components.receipts.done(pending)

    def error_text(self, error: Exception) -> str:
        """The text for the ERROR frame. Before the login it quotes nothing from the client: that may be a password."""
        return str(error) if self._components.logged_in else _CONNECT_EXPECTED

    # Actions and handlers return True when they are done. All raise StompError, BadNameError or CommandError.

    def _handle(self, frame: StompFrame) -> bool:
        """The stage may have changed since the frame was decoded: equal frames are decoded together."""
        components = self._components
        row = _ROWS.get(components.stage)
        if row is None:
            # A frame before the end of the login waits; one after DISCONNECT means nothing any more.
            return components.stage is StompStage.ENDING
        components.failed_receipt = frame.headers.get("receipt", "") if components.logged_in else ""
        handle = row.get(frame.command)
        if handle is None:
            raise StompError(f"{frame.command} is not a frame that a client sends now")
        done: bool = handle(self, frame)
        components.failed_receipt = ""
        return done

    def _connect(self, frame: StompFrame) -> bool:
        components = self._components
        try:
            components.connect_headers = parse_connect(frame.headers)
        except StompError as error:
            components.socket.refuse(str(error))
            return True
        components.stage = StompStage.LOGIN
        components.socket.set_version(components.connect_headers.version)
        components.commands.add_json(Kind.HELLO, components.connect_headers.hello)
        return True

    def _send(self, batch: SendBatch) -> bool:
        components, key, receipts = self._components, batch.key, batch.receipts()
        components.failed_receipt = receipts[0] if receipts else ""
        if not all(components.temporary_queues.ready(name) for name in batch.destinations()):
            return False
        session = components.transactions[key.transaction].session if key.transaction else PLAIN
        name = components.temporary_queues.name(key.destination)
        if not components.exists(name):
            components.producers.close(session, name)
            if name.startswith(_TEMPORARY_QUEUE):
                # The requester has disconnected: discard the reply, so that the replier can go on.
                self._receipts_when_sent(receipts)
                return True
        producer = components.producers.ready(session, name)
        if producer is None:
            return False
        payload = batch.payload(SendContext(components.clock_ms(), self._reply_to))
        components.failed_receipt = ""
        if key.transaction:
            components.producers.send_in_transaction(producer, session, payload, persistent=key.persistent)
            self._receipts_when_sent(receipts)
        else:
            waits = key.persistent or bool(receipts)
            pending = components.receipts.expect(receipts) if waits else None
            components.producers.send(producer, payload, pending, persistent=key.persistent)
        return True

    def _reply_to(self, written: str) -> str:
        """A reply-to that is not a destination of this broker stays as it is: the consumer may understand it."""
        try:
            return self._components.temporary_queues.name(written)
        except BadNameError:
            return written

    def _settle(self, frame: StompFrame | FrameRun) -> bool:
        components, headers = self._components, frame.headers
        self._components.failed_receipt = headers.get("receipt", "")
        names = _SETTLED_BY[components.version]
        for needed in names:
            if needed not in headers:
                raise StompError(f"{frame.command} of STOMP {components.version} needs {needed}")
        transaction = components.transactions[headers["transaction"]] if headers.get("transaction") else None
        outcome = _outcome(frame)
        for subscription, ids in components.subscriptions.deliveries_of(_values(frame, names[0])):
            if len(names) > 1 and subscription.headers.id != headers["subscription"]:
                raise StompError(f"{headers['subscription'][:80]!r} is not the subscription of these messages")
            ranges = subscription.take(ids)
            if transaction is None:
                subscription.settle(ranges, outcome)
            else:
                transaction.settled.append((subscription, ranges, outcome))
            subscription.grant_credit(ranges)
        self._components.failed_receipt = ""
        self._receipts_when_sent(_values(frame, "receipt") if "receipt" in headers else ())
        return True

    def _subscribe(self, frame: StompFrame) -> bool:
        components = self._components
        headers = parse_subscribe(frame.headers, components.version)
        if not components.temporary_queues.ready(headers.written):
            return False
        components.subscriptions.open(
            headers, components.temporary_queues.name(headers.written), components.version, _receipt(frame.headers)
        )
        return True

    def _unsubscribe(self, frame: StompFrame) -> bool:
        components, headers = self._components, frame.headers
        durable, subscription = durable_name(headers), components.subscriptions.find(headers)
        if subscription is None and not durable:
            raise StompError(f"there is no subscription {headers.get('id', headers.get('destination', ''))[:80]!r}")
        if subscription is not None:
            if not subscription.opening.done:
                # The native connection answers OPEN_CONSUMER only while the consumer is open.
                return False
            components.transactions.subscription_closing(subscription)
            components.subscriptions.close(subscription)
        if not durable:
            self._receipts_when_sent(_receipt(headers))
            return True
        pending = components.receipts.expect(_receipt(headers))
        request = {"ask": "unsubscribe", "name": durable}
        components.commands.request(request, lambda _: components.receipts.done(pending), pending.ids)
        return True

    def _begin(self, frame: StompFrame) -> bool:
        self._components.transactions.begin(frame.headers.get("transaction", ""))
        self._receipts_when_sent(_receipt(frame.headers))
        return True

    def _commit(self, frame: StompFrame) -> bool:
        self._components.transactions.commit(frame.headers.get("transaction", ""), _receipt(frame.headers))
        return True

    def _abort(self, frame: StompFrame) -> bool:
        self._components.transactions.abort(frame.headers.get("transaction", ""), _receipt(frame.headers))
        return True

    def _disconnect(self, frame: StompFrame) -> bool:
        self._components.stage = StompStage.ENDING
        self._receipts_when_sent(_receipt(frame.headers))
        return True

    def _receipts_when_sent(self, receipts: Sequence[str]) -> None:
        if receipts:
            self._due_when_sent.append(self._components.receipts.expect(receipts))


def _receipt(headers: Mapping[str, str]) -> tuple[str, ...]:
    return (headers["receipt"],) if "receipt" in headers else ()


def _frames(frame: StompFrame | FrameRun) -> list[StompFrame]:
    return frame.frames() if isinstance(frame, FrameRun) else [frame]


def _values(frame: StompFrame | FrameRun, name: str) -> Sequence[str]:
    return frame.values(name) if isinstance(frame, FrameRun) else (frame.headers[name],)


def _outcome(frame: StompFrame | FrameRun) -> Outcome:
    if frame.command == "ACK":
        return Outcome.ACCEPTED
    # As RabbitMQ does: a message that need not come again is a dead letter.
    return Outcome.REJECTED if frame.headers.get("requeue") == "false" else Outcome.RETURNED


_ROWS: Final = resolved(TABLE, StompDecoder)
