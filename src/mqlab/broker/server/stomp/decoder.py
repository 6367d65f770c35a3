"""What a STOMP client says, as commands for the broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import time_ns
from typing import Final

from mqlab.broker.core.model.destination_names import QUEUE, TEMPORARY
from mqlab.broker.server.stomp.components import StompComponents
from mqlab.broker.server.stomp.handshake import parse_connect
from mqlab.broker.server.stomp.messages.headers import CORRELATION_ID, SendContext
from mqlab.broker.server.stomp.messages.packing import BatchKey, SendBatch, batch_key
from mqlab.broker.server.stomp.producers import PLAIN
from mqlab.broker.server.stomp.receipts import PendingReceipts
from mqlab.broker.server.stomp.subscribe_headers import durable_name, parse_subscribe
from mqlab.wire.native.columns import PROPERTY
from mqlab.wire.native.frames import Kind
from mqlab.wire.stomp import FrameRun, StompError, StompFrame

# Something to do; False: not yet, try again when the broker has said something.
Action = Callable[[], bool]

# Headers whose values may differ between frames that are handled together.
VARYING: Final = frozenset(("receipt", "id", "message-id", *CORRELATION_ID))
# Headers that an ACK or NACK of each version must have; the first names the message.
_SETTLED_BY: Final = {"1.0": ("message-id",), "1.1": ("message-id", "subscription"), "1.2": ("id",)}
# Properties are among them as they are met; so many are remembered.
_MOST_PROPERTIES: Final = 64
_ANOTHER_S: Final = f"{QUEUE}:{TEMPORARY}"
_GREETINGS: Final = ("CONNECT", "STOMP")
_NOT_A_GREETING: Final = "the first frame must be CONNECT or STOMP, and well formed"


class StompDecoder:
    def __init__(self, components: StompComponents) -> None:
        self._components = components
        self._gathered: SendBatch | None = None
        # Done when the broker has what was said.
        self._at_hand_over: list[PendingReceipts] = []
        self._leaves = False
        # Of the last message that was looked at.
        self._last_headers: Mapping[str, str] = {}
        self._last_kind = BatchKey("", "", False, ())
        # Headers that this client uses as properties.
        self._properties: set[str] = set()
        self._handlers: dict[str, Callable[[StompFrame], bool]] = {
            "SUBSCRIBE": self._subscribe,
            "UNSUBSCRIBE": self._unsubscribe,
            "BEGIN": self._begin,
            "COMMIT": self._commit,
            "ABORT": self._abort,
            "DISCONNECT": self._disconnect,
        }

    @property
    def waits(self) -> bool:
        """Nothing more of the client is looked at: it is not let in yet, or said that it leaves."""
        return self._leaves or (self._components.greeting is not None and not self._components.logged_in)

    @property
    def has_left(self) -> bool:
        """It said so, and all that it said before is done."""
        return self._leaves and self._components.receipts.idle

    def gathers(self, found: StompFrame | FrameRun) -> bool:
        """Whether it is a message that is sent with those before it. Raises StompError."""
        if found.command != "SEND" or not self._components.logged_in:
            return False
        if self._gathered is None:
            self._gathered = self._first(found)
            return True
        return self._gathered.takes(found)

    def actions(self, found: StompFrame | FrameRun) -> list[Action]:
        """For what does not go with the messages before it: these must be sent first. Raises StompError."""
        if found.command == "SEND" and self._components.logged_in:
            following = self._first(found)
            actions, self._gathered = self.gathered(), following
            return actions
        actions = self.gathered()
        if not self._components.logged_in:
            actions += [partial(self._connect, frame) for frame in _frames(found)]
        elif found.command in ("ACK", "NACK"):
            actions.append(partial(self._settle, found))
        else:
            actions += [partial(self._handle, frame) for frame in _frames(found)]
        return actions

    def _first(self, found: StompFrame | FrameRun) -> SendBatch:
        """The first of messages that may be sent together. Raises StompError."""
        if found.headers is self._last_headers:
            # One like it came before, so that its head was not read again.
            return SendBatch(self._last_kind, found)
        kind = batch_key(found)
        self._last_headers, self._last_kind = found.headers, kind
        properties = {column.header for column in kind.columns if column.name.startswith(PROPERTY)}
        if not properties <= self._properties and len(self._properties) < _MOST_PROPERTIES:
            self._properties |= properties
            self._components.outside.varies(VARYING | self._properties)
        return SendBatch(kind, found)

    def gathered(self) -> list[Action]:
        """Messages that nothing is put to any more."""
        gathered, self._gathered = self._gathered, None
        return [] if gathered is None else [partial(self._send, gathered)]

    def handed_over(self) -> None:
        """The broker has all that was said."""
        done, self._at_hand_over = self._at_hand_over, []
        for pending in done:
            self._components.receipts.done(pending)

    def told(self, error: Exception) -> str:
        """What to say of it: nothing that a stranger wrote, for that may be a password."""
        return str(error) if self._components.logged_in else _NOT_A_GREETING

    # Each returns True: it is done. All raise StompError, BadNameError or RefusedError.

    def _connect(self, frame: StompFrame) -> bool:
        components = self._components
        if frame.command not in _GREETINGS or components.greeting is not None:
            raise StompError(_NOT_A_GREETING)
        try:
            components.greeting = parse_connect(frame.headers)
        except StompError as error:
            components.outside.refuse(str(error))
            return True
        components.outside.speaks(components.greeting.version)
        components.commands.say(Kind.HELLO, components.greeting.hello)
        return True

    def _handle(self, frame: StompFrame) -> bool:
        handler = self._handlers.get(frame.command)
        self._components.failed_receipt = frame.headers.get("receipt", "")
        if handler is None:
            raise StompError(f"{frame.command} is not a frame that a client sends now")
        done = handler(frame)
        self._components.failed_receipt = ""
        return done

    def _send(self, gathered: SendBatch) -> bool:
        components, kind, receipts = self._components, gathered.kind, gathered.receipts()
        components.failed_receipt = receipts[0] if receipts else ""
        if not all(components.temporaries.ready(name) for name in gathered.destinations()):
            return False
        session = components.transactions[kind.transaction].session if kind.transaction else PLAIN
        name = components.temporaries.name(kind.destination)
        if not components.exists(name):
            components.producers.let_go(session, name)
            if name.startswith(_ANOTHER_S):
                # A reply to somebody who has left goes nowhere; who replies to others must not suffer for it.
                self._done_at_hand_over(receipts)
                return True
        producer = components.producers.ready(session, name)
        if producer is None:
            return False
        payload = gathered.payload(SendContext(time_ns() // 1_000_000, self._reply_to))
        components.failed_receipt = ""
        if kind.transaction:
            components.producers.send_within(producer, session, payload, persistent=kind.persistent)
            self._done_at_hand_over(receipts)
        else:
            components.producers.send(producer, payload, receipts, persistent=kind.persistent)
        return True

    def _reply_to(self, written: str) -> str:
        """What is no destination here may mean something to whoever gets it."""
        try:
            return self._components.temporaries.name(written)
        except ValueError:
            return written

    def _settle(self, found: StompFrame | FrameRun) -> bool:
        components, headers = self._components, found.headers
        self._components.failed_receipt = headers.get("receipt", "")
        names = _SETTLED_BY[components.version]
        for needed in names:
            if needed not in headers:
                raise StompError(f"{found.command} of STOMP {components.version} needs {needed}")
        transaction = components.transactions[headers["transaction"]] if headers.get("transaction") else None
        accepted = found.command == "ACK"
        for subscription, ids in components.subscriptions.of_messages(_values(found, names[0])):
            if len(names) > 1 and subscription.headers.id != headers["subscription"]:
                raise StompError(f"{headers['subscription'][:80]!r} is not the subscription of these messages")
            ranges = subscription.taken(ids)
            if transaction is None:
                subscription.settle(ranges, accepted=accepted)
            else:
                transaction.settled.append((subscription, ranges, accepted))
            subscription.make_room(ranges)
        self._components.failed_receipt = ""
        self._done_at_hand_over(_values(found, "receipt") if "receipt" in headers else ())
        return True

    def _subscribe(self, frame: StompFrame) -> bool:
        components = self._components
        headers = parse_subscribe(frame.headers, components.version)
        if not components.temporaries.ready(headers.written):
            return False
        components.subscriptions.open(
            headers, components.temporaries.name(headers.written), components.version, _receipt(frame.headers)
        )
        return True

    def _unsubscribe(self, frame: StompFrame) -> bool:
        components, headers = self._components, frame.headers
        durable, found = durable_name(headers), components.subscriptions.find(headers)
        if found is None and not durable:
            raise StompError(f"there is no subscription {headers.get('id', headers.get('destination', ''))[:80]!r}")
        if found is not None:
            if not found.opening.done:
                # The broker answers for a consumer only as long as it is there.
                return False
            components.transactions.leaves(found)
            components.subscriptions.close(found)
        if not durable:
            self._done_at_hand_over(_receipt(headers))
            return True
        pending = components.receipts.expect(_receipt(headers))
        question = {"ask": "unsubscribe", "name": durable}
        components.commands.ask(question, lambda _: components.receipts.done(pending), pending.ids)
        return True

    def _begin(self, frame: StompFrame) -> bool:
        self._components.transactions.begin(frame.headers.get("transaction", ""))
        self._done_at_hand_over(_receipt(frame.headers))
        return True

    def _commit(self, frame: StompFrame) -> bool:
        self._components.transactions.commit(frame.headers.get("transaction", ""), _receipt(frame.headers))
        return True

    def _abort(self, frame: StompFrame) -> bool:
        self._components.transactions.abort(frame.headers.get("transaction", ""), _receipt(frame.headers))
        return True

    def _disconnect(self, frame: StompFrame) -> bool:
        self._leaves = True
        self._done_at_hand_over(_receipt(frame.headers))
        return True

    def _done_at_hand_over(self, receipts: Sequence[str]) -> None:
        if receipts:
            self._at_hand_over.append(self._components.receipts.expect(receipts))


def _receipt(headers: Mapping[str, str]) -> tuple[str, ...]:
    return (headers["receipt"],) if "receipt" in headers else ()


def _frames(found: StompFrame | FrameRun) -> list[StompFrame]:
    return found.frames() if isinstance(found, FrameRun) else [found]


def _values(found: StompFrame | FrameRun, name: str) -> Sequence[str]:
    return found.values(name) if isinstance(found, FrameRun) else (found.headers[name],)
