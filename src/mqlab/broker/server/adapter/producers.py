"""The producers of a protocol connection: one for each destination, opened with the first message to it."""

from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from mqlab.broker import limits
from mqlab.broker.server.adapter.commands import NativeCommands
from mqlab.wire.native.bodies import Payload
from mqlab.wire.native.coalescing import as_singles
from mqlab.wire.native.frames import Flag, Kind

# The session without a transaction.
PLAIN: Final = 1
_CONFIRM, _PERSISTENT = int(Flag.CONFIRM), int(Flag.PERSISTENT)

# The value that a protocol keeps for a send until it is confirmed.
PendingT = TypeVar("PendingT")


class AdapterProducer(Generic[PendingT]):
    """`credit`: bytes that it may send, and overdraw once. `unconfirmed`: last sequence number and what is pending."""

    __slots__ = ("credit", "link", "next", "unconfirmed")

    def __init__(self, link: int) -> None:
        self.link = link
        self.credit = 0
        self.next = 1
        self.unconfirmed: deque[tuple[int, PendingT]] = deque()


class AdapterProducers(Generic[PendingT]):
    """`confirmed` is called with what a send has pending, in the order of the sends of each producer."""

    def __init__(self, commands: NativeCommands, confirmed: Callable[[PendingT], None]) -> None:
        self._commands = commands
        self._on_confirmed = confirmed
        # By session and destination; the one used last is the last.
        self._by_name: dict[tuple[int, str], AdapterProducer[PendingT]] = {}
        self._by_link: dict[int, AdapterProducer[PendingT]] = {}

    def ready(self, session: int, name: str) -> AdapterProducer[PendingT] | None:
        """Open the producer if needed. Return None while it has no credit."""
        key = session, name
        producer = self._by_name.pop(key, None)
        if producer is None:
            producer = AdapterProducer(self._commands.new_link())
            self._by_link[producer.link] = producer
            self._commands.add_json(Kind.OPEN_PRODUCER, {"destination": name}, session=session, link=producer.link)
            self._close_oldest()
        self._by_name[key] = producer
        return producer if producer.credit > 0 else None

    def send(
        self, producer: AdapterProducer[PendingT], payload: Payload, pending: PendingT | None, *, persistent: bool
    ) -> None:
        """Send outside a transaction. With `pending` the broker confirms the messages when they are safe."""
        flags = 0
        if pending is not None:
            flags = _CONFIRM
            producer.unconfirmed.append((producer.next + payload.rows - 1, pending))
        self._send(producer, PLAIN, payload, flags, persistent)

    def send_in_transaction(
        self, producer: AdapterProducer[PendingT], session: int, payload: Payload, *, persistent: bool
    ) -> None:
        self._send(producer, session, payload, 0, persistent)

    def _send(
        self, producer: AdapterProducer[PendingT], session: int, payload: Payload, flags: int, persistent: bool
    ) -> None:
        # Messages that came together are one batch of single messages.
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
            self._on_confirmed(waiting.popleft()[1])

    def pending_of(self, link: int, seq: int) -> PendingT | None:
        """The pending value of the send that ends with this sequence number."""
        producer = self._by_link.get(link)
        if producer is None:
            return None
        return next((pending for last, pending in producer.unconfirmed if last == seq), None)

    def refused(self, link: int, seq: int) -> PendingT | None:
        """The broker has refused the send that ends with this number: it is not pending any more, and is returned."""
        pending = self.pending_of(link, seq)
        if pending is not None:
            self._by_link[link].unconfirmed.remove((seq, pending))
        return pending

    def forget(self, session: int) -> None:
        """Drop the producers of a session that is closed."""
        for key in [key for key in self._by_name if key[0] == session]:
            self._by_link.pop(self._by_name.pop(key).link)

    def forget_refused(self, link: int) -> str | None:
        """The broker has refused to open this producer. Returns the name of its destination."""
        if self._by_link.pop(link, None) is None:
            return None
        key = next((key for key, producer in self._by_name.items() if producer.link == link), None)
        if key is None:
            return None
        del self._by_name[key]
        return key[1]

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
        if len(self._by_name) < limits.ADAPTER_PRODUCERS:
            return
        for key, producer in self._by_name.items():
            if key[0] == PLAIN and not producer.unconfirmed:
                self._close(key)
                return

    def _close(self, key: tuple[int, str]) -> None:
        self._commands.add(Kind.CLOSE, link=self._by_name.pop(key).link)
