"""The producers of a STOMP connection: one for each destination, opened with the first SEND to it."""

from collections import deque
from collections.abc import Sequence
from typing import Final

from mqlab.broker import limits
from mqlab.broker.server.stomp.commands import NativeCommands
from mqlab.broker.server.stomp.receipts import PendingReceipts, Receipts
from mqlab.wire.native.bodies import Payload
from mqlab.wire.native.coalescing import as_singles
from mqlab.wire.native.frames import Flag, Kind

# The session without a transaction.
PLAIN: Final = 1
_CONFIRM, _PERSISTENT = int(Flag.CONFIRM), int(Flag.PERSISTENT)


class StompProducer:
    """`credit`: bytes that it may send, and overdraw once. `unconfirmed`: last sequence number and receipts."""

    __slots__ = ("credit", "link", "next", "unconfirmed")

    def __init__(self, link: int) -> None:
        self.link = link
        self.credit = 0
        self.next = 1
        self.unconfirmed: deque[tuple[int, PendingReceipts]] = deque()


class StompProducers:
    def __init__(self, commands: NativeCommands, receipts: Receipts) -> None:
        self._commands = commands
        self._receipts = receipts
        # By session and destination; the one used last is the last.
        self._by_name: dict[tuple[int, str], StompProducer] = {}
        self._by_link: dict[int, StompProducer] = {}

    def ready(self, session: int, name: str) -> StompProducer | None:
        """Open the producer if needed. Return None while it has no credit."""
        key = session, name
        producer = self._by_name.pop(key, None)
        if producer is None:
            producer = StompProducer(self._commands.new_link())
            self._by_link[producer.link] = producer
            self._commands.add_json(Kind.OPEN_PRODUCER, {"destination": name}, session=session, link=producer.link)
            self._close_oldest()
        self._by_name[key] = producer
        return producer if producer.credit > 0 else None

    def send(self, producer: StompProducer, payload: Payload, receipts: Sequence[str], *, persistent: bool) -> None:
        """Send outside a transaction. The receipts follow when the broker has confirmed the messages."""
        flags = 0
        if persistent or receipts:
            flags = _CONFIRM
            last = producer.next + payload.rows - 1
            producer.unconfirmed.append((last, self._receipts.expect(receipts)))
        self._send(producer, PLAIN, payload, flags, persistent)

    def send_in_transaction(self, producer: StompProducer, session: int, payload: Payload, *, persistent: bool) -> None:
        self._send(producer, session, payload, 0, persistent)

    def _send(self, producer: StompProducer, session: int, payload: Payload, flags: int, persistent: bool) -> None:
        # SEND frames that came together are one batch of single messages.
        data, rows, form = as_singles(payload)
        flags |= form | (_PERSISTENT if persistent else 0)
        first, link = producer.next, producer.link
        self._commands.add(Kind.SEND, data, flags=flags, session=session, link=link, first=first, amount=rows)
        producer.next += rows
        producer.credit -= len(data)

    def credit(self, link: int, size: int) -> None:
        if link in self._by_link:
            self._by_link[link].credit += size

    def confirmed(self, link: int, seq: int) -> None:
        waiting = self._by_link[link].unconfirmed
        while waiting and waiting[0][0] <= seq:
            self._receipts.done(waiting.popleft()[1])

    def receipts_of(self, link: int, seq: int) -> Sequence[str]:
        """The receipts for the send that ends with this sequence number."""
        producer = self._by_link.get(link)
        receipts = () if producer is None else (pending.ids for last, pending in producer.unconfirmed if last == seq)
        return next(iter(receipts), ())

    def forget(self, session: int) -> None:
        """Drop the producers of a session that is closed."""
        for key in [key for key in self._by_name if key[0] == session]:
            self._by_link.pop(self._by_name.pop(key).link)

    def close(self, session: int, name: str) -> None:
        """Close the producer: its destination was deleted, and a new one of that name is another destination."""
        if (session, name) in self._by_name:
            self._close((session, name))

    def closed(self, link: int) -> None:
        """The broker has confirmed all that the producer sent, and has closed it."""
        self._by_link.pop(link, None)

    def count(self, session: int) -> int:
        return sum(number == session for number, _ in self._by_name)

    def _close_oldest(self) -> None:
        """A connection may reply to many temporary queues. Producers of an open transaction stay open."""
        if len(self._by_name) < limits.STOMP_PRODUCERS:
            return
        for key, producer in self._by_name.items():
            if key[0] == PLAIN and not producer.unconfirmed:
                self._close(key)
                return

    def _close(self, key: tuple[int, str]) -> None:
        self._commands.add(Kind.CLOSE, link=self._by_name.pop(key).link)
