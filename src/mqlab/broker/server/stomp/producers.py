"""StompProducers of a connection: one for each destination, opened when it is first sent to."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from mqlab.broker import limits
from mqlab.broker.server.stomp.commands import NativeCommands
from mqlab.broker.server.stomp.receipts import PendingReceipts, Receipts
from mqlab.wire.native.bodies import Payload
from mqlab.wire.native.coalescing import as_singles
from mqlab.wire.native.frames import Flag, Kind

# The session that is no transaction.
PLAIN: Final = 1
_CONFIRM, _PERSISTENT = int(Flag.CONFIRM), int(Flag.PERSISTENT)


class StompProducer:
    """`credit`: bytes it may send; it may overdraw once. `unconfirmed`: last sequence number, and who waits for it."""

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
        # By session and destination; the one that was used last is the last.
        self._named: dict[tuple[int, str], StompProducer] = {}
        self._linked: dict[int, StompProducer] = {}

    def ready(self, session: int, name: str) -> StompProducer | None:
        """None: it must be waited for credit."""
        key = session, name
        producer = self._named.pop(key, None)
        if producer is None:
            producer = StompProducer(self._commands.new_link())
            self._linked[producer.link] = producer
            self._commands.say(Kind.OPEN_PRODUCER, {"destination": name}, session=session, link=producer.link)
            self._close_some()
        self._named[key] = producer
        return producer if producer.credit > 0 else None

    def send(self, producer: StompProducer, payload: Payload, receipts: Sequence[str], *, persistent: bool) -> None:
        """Outside of a transaction: the receipts follow when the messages are where they belong, or on disk."""
        flags = 0
        if persistent or receipts:
            flags = _CONFIRM
            last = producer.next + payload.rows - 1
            producer.unconfirmed.append((last, self._receipts.expect(receipts)))
        self._send(producer, PLAIN, payload, flags, persistent)

    def send_within(self, producer: StompProducer, session: int, payload: Payload, *, persistent: bool) -> None:
        self._send(producer, session, payload, 0, persistent)

    def _send(self, producer: StompProducer, session: int, payload: Payload, flags: int, persistent: bool) -> None:
        # Frames that came together are one batch; yet each is a message of its own.
        data, rows, form = as_singles(payload)
        flags |= form | (_PERSISTENT if persistent else 0)
        first, link = producer.next, producer.link
        self._commands.add(Kind.SEND, data, flags=flags, session=session, link=link, first=first, amount=rows)
        producer.next += rows
        producer.credit -= len(data)

    def credit(self, link: int, size: int) -> None:
        if link in self._linked:
            self._linked[link].credit += size

    def confirmed(self, link: int, seq: int) -> None:
        waiting = self._linked[link].unconfirmed
        while waiting and waiting[0][0] <= seq:
            self._receipts.done(waiting.popleft()[1])

    def receipts_of(self, link: int, seq: int) -> Sequence[str]:
        """Wanted for the send that ended with this sequence number."""
        producer = self._linked.get(link)
        found = () if producer is None else (pending.ids for last, pending in producer.unconfirmed if last == seq)
        return next(iter(found), ())

    def forget(self, session: int) -> None:
        """Those of a session that is closed."""
        for key in [key for key in self._named if key[0] == session]:
            self._linked.pop(self._named.pop(key).link)

    def let_go(self, session: int, name: str) -> None:
        """Its destination is gone: if there is one of that name again, it is another one."""
        if (session, name) in self._named:
            self._close((session, name))

    def closed(self, link: int) -> None:
        """As the broker says: all it sent is confirmed."""
        self._linked.pop(link, None)

    def count(self, session: int) -> int:
        return sum(one == session for one, _ in self._named)

    def _close_some(self) -> None:
        """A connection may reply to one temporary queue after the other. Of a transaction none is closed before it."""
        if len(self._named) < limits.STOMP_PRODUCERS:
            return
        for key, producer in self._named.items():
            if key[0] == PLAIN and not producer.unconfirmed:
                self._close(key)
                return

    def _close(self, key: tuple[int, str]) -> None:
        self._commands.add(Kind.CLOSE, link=self._named.pop(key).link)
