"""The native producers of an AMQP connection: one for each destination and native session."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from mqlab.broker import limits
from mqlab.broker.server.adapter.commands import NativeCommands
from mqlab.broker.server.amqp.errors import LinkError
from mqlab.broker.server.amqp.messages.packing import MessageRow, payload_of
from mqlab.wire.native.coalescing import as_singles
from mqlab.wire.native.frames import Flag, Kind

# The session without a transaction.
PLAIN: Final = 1
_CONFIRM, _PERSISTENT = int(Flag.CONFIRM), int(Flag.PERSISTENT)

# Called when the broker has opened the producer, or has confirmed the messages; or with the error.
Callback = Callable[[LinkError | None], None]


class PendingRow(NamedTuple):
    """A message on its way to the broker. `done`: None if the client does not wait for an answer."""

    row: MessageRow
    done: Callback | None


class AmqpProducer:
    """`credit`: bytes that it may send, and overdraw once."""

    __slots__ = ("credit", "key", "link", "next", "opening", "unconfirmed", "users", "waiting", "waiting_bytes")

    def __init__(self, key: tuple[int, str], link: int) -> None:
        self.key = key
        self.link = link
        self.credit = 0
        self.next = 1
        # Callbacks that wait until it is open; None: it is.
        self.opening: list[Callback] | None = []
        # Links that are attached to its destination.
        self.users = 0
        # First and last sequence number of each send that is not confirmed, and the callbacks of its rows.
        self.unconfirmed: deque[tuple[int, int, Sequence[Callback | None]]] = deque()
        # Messages that wait for credit.
        self.waiting: deque[PendingRow] = deque()
        self.waiting_bytes = 0


class AmqpProducers:
    """`stays_single` says whether messages of a native producer must not be sent as a batch."""

    def __init__(self, commands: NativeCommands, stays_single: Callable[[int], bool]) -> None:
        self._commands = commands
        self._stays_single = stays_single
        # The one used last is the last.
        self._by_key: dict[tuple[int, str], AmqpProducer] = {}
        self._by_link: dict[int, AmqpProducer] = {}
        # Callbacks that wait until the messages of a native session are sent.
        self._when_sent: list[tuple[int, Callable[[], None]]] = []
        # Rows of the current read that are not sent yet.
        self._unsent: dict[AmqpProducer, list[PendingRow]] = {}
        # Of all messages that wait for credit.
        self.waiting_bytes = 0

    @property
    def has_waiting(self) -> bool:
        """Whether any message waits for credit."""
        return any(producer.waiting for producer in self._by_link.values())

    def open(self, session: int, name: str, opened: Callback) -> AmqpProducer:
        """The producer for a destination; `opened` is called when it can be used."""
        key = session, name
        producer = self._by_key.pop(key, None)
        if producer is None:
            self._close_oldest()
            producer = AmqpProducer(key, self._commands.new_link())
            self._by_link[producer.link] = producer
            self._commands.add_json(Kind.OPEN_PRODUCER, {"destination": name}, session=session, link=producer.link)
        self._by_key[key] = producer
        if producer.opening is None:
            opened(None)
        else:
            producer.opening.append(opened)
        return producer

    def find(self, session: int, name: str) -> AmqpProducer | None:
        return self._by_key.get((session, name))

    def send(self, producer: AmqpProducer, row: MessageRow, done: Callback | None) -> None:
        """Send a message with the others of the current read, see `flush`."""
        self._unsent.setdefault(producer, []).append(PendingRow(row, done))

    def flush(self) -> None:
        """Send the messages of the current read: those with the same columns in one batch."""
        unsent, self._unsent = self._unsent, {}
        for producer, rows in unsent.items():
            producer.waiting.extend(rows)
            self._add_waiting(producer, sum([len(pending.row.body) for pending in rows]))
            self._send_waiting(producer)

    def when_sent(self, session: int, then: Callable[[], None]) -> None:
        """Call `then` when no message of this native session waits for credit."""
        self.flush()
        if self._session_waits(session):
            self._when_sent.append((session, then))
        else:
            then()

    def _session_waits(self, session: int) -> bool:
        return any(key[0] == session and producer.waiting for key, producer in self._by_key.items())

    def _call_when_sent(self) -> None:
        waiting, self._when_sent = self._when_sent, []
        for session, then in waiting:
            self.when_sent(session, then)

    # From the broker

    def opened(self, link: int) -> None:
        producer = self._by_link.get(link)
        if producer is not None and producer.opening is not None:
            callbacks, producer.opening = producer.opening, None
            for opened in callbacks:
                opened(None)

    def granted(self, link: int, size: int) -> None:
        """The broker grants credit."""
        producer = self._by_link.get(link)
        if producer is not None:
            producer.credit += size
            self._send_waiting(producer)
            self._call_when_sent()

    def confirmed(self, link: int, seq: int) -> None:
        producer = self._by_link.get(link)
        if producer is None:
            return
        unconfirmed = producer.unconfirmed
        while unconfirmed and unconfirmed[0][0] <= seq:
            first, last, callbacks = unconfirmed.popleft()
            if last > seq:
                unconfirmed.appendleft((seq + 1, last, callbacks[seq - first + 1 :]))
                callbacks = callbacks[: seq - first + 1]
            _call(callbacks, None)

    def refused(self, link: int, first: int, error: LinkError) -> bool:
        """The broker has refused to open the producer, or to take a send. Return False if it is no producer."""
        producer = self._by_link.get(link)
        if producer is None:
            return False
        if producer.opening is not None:
            self._forget(producer)
            waiting = [pending.done for pending in producer.waiting]
            for opened in producer.opening:
                opened(error)
            _call(waiting, error)
            self._call_when_sent()
            return True
        for at, (begin, _, callbacks) in enumerate(producer.unconfirmed):
            if begin == first:
                del producer.unconfirmed[at]
                _call(callbacks, error)
                break
        return True

    def closed(self, link: int) -> None:
        self._drop(link)

    def forget_session(self, session: int) -> None:
        """Drop the producers of a native session that is closed."""
        for producer in [producer for key, producer in self._by_key.items() if key[0] == session]:
            self._forget(producer)

    def close_unused(self, name: str) -> None:
        """Close the producer of a destination that is deleted."""
        producer = self._by_key.get((PLAIN, name))
        if producer is not None and not producer.waiting:
            self._close(producer)

    def clear(self) -> None:
        """The connection is lost: release the messages. Its parts refer to each other until garbage is collected."""
        for producer in self._by_link.values():
            producer.waiting.clear()
            producer.unconfirmed.clear()
        for kept in (self._by_key, self._by_link, self._unsent, self._when_sent):
            kept.clear()
        self.waiting_bytes = 0

    def _send_waiting(self, producer: AmqpProducer) -> None:
        while producer.waiting and producer.credit > 0 and producer.opening is None:
            batch = [*_next_batch(producer, single=self._stays_single(producer.link))]
            self._add_waiting(producer, -sum([len(pending.row.body) for pending in batch]))
            self._send_batch(producer, batch)

    def _send_batch(self, producer: AmqpProducer, batch: Sequence[PendingRow]) -> None:
        data, rows, form = as_singles(payload_of([pending.row for pending in batch]))
        session, first = producer.key[0], producer.next
        flags = form | (_PERSISTENT if batch[0].row.persistent else 0)
        callbacks = [pending.done for pending in batch]
        if session == PLAIN and any(callbacks):
            flags |= _CONFIRM
            producer.unconfirmed.append((first, first + rows - 1, callbacks))
        self._commands.add(
            Kind.SEND, data, flags=flags, session=session, link=producer.link, first=first, amount=rows
        )  # fmt: skip
        producer.next += rows
        producer.credit -= len(data)
        if session != PLAIN:
            _call(callbacks, None)

    def _close_oldest(self) -> None:
        """A client may reply to many temporary queues through one link."""
        if len(self._by_key) < limits.ADAPTER_PRODUCERS:
            return
        for key, producer in self._by_key.items():
            if key[0] == PLAIN and not (producer.users or producer.unconfirmed or producer.waiting):
                self._close(producer)
                return

    def _close(self, producer: AmqpProducer) -> None:
        self._by_key.pop(producer.key, None)
        self._commands.add(Kind.CLOSE, link=producer.link)

    def _forget(self, producer: AmqpProducer) -> None:
        self._by_key.pop(producer.key, None)
        self._drop(producer.link)

    def _add_waiting(self, producer: AmqpProducer, size: int) -> None:
        producer.waiting_bytes += size
        if producer.link in self._by_link:
            self.waiting_bytes += size

    def _drop(self, link: int) -> None:
        producer = self._by_link.pop(link, None)
        if producer is not None:
            self.waiting_bytes -= producer.waiting_bytes


def _next_batch(producer: AmqpProducer, *, single: bool) -> Iterator[PendingRow]:
    """Take the next rows that one payload can hold, no more than the credit allows."""
    waiting, size = producer.waiting, 0
    first = waiting[0].row
    while waiting and size < producer.credit and waiting[0].row.belongs_to(first):
        pending = waiting.popleft()
        size += len(pending.row.body)
        yield pending
        if single:
            return


def _call(callbacks: Sequence[Callback | None], error: LinkError | None) -> None:
    for done in callbacks:
        if done is not None:
            done(error)
