"""The subscriptions of a STOMP connection: deliveries and acknowledgements."""

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Final

from mqlab.broker.server.adapter.commands import NativeCommands
from mqlab.broker.server.adapter.id_ranges import IdRange, UnacknowledgedRanges, count, ranges_of
from mqlab.broker.server.adapter.receipts import PendingReceipts, Receipts
from mqlab.broker.server.stomp.messages.destination_names import stomp_name
from mqlab.broker.server.stomp.messages.unpacking import MessageWriter, header_line
from mqlab.broker.server.stomp.subscribe_headers import SubscribeHeaders
from mqlab.wire.native.bodies import Payload
from mqlab.wire.native.frames import FORM, Flag, Frame, Kind
from mqlab.wire.stomp.frames import StompError

_REDELIVERED, _PERSISTENT = int(Flag.REDELIVERED), int(Flag.PERSISTENT)
# Encoded heads that a subscription caches.
_MOST_HEADS: Final = 64


class Outcome(Enum):
    """The fate of a delivered message: it is done, it comes again, or it becomes a dead letter."""

    ACCEPTED = auto()
    RETURNED = auto()
    REJECTED = auto()


# The native command and its flags.
_COMMANDS: Final = {
    Outcome.ACCEPTED: (Kind.ACKNOWLEDGE_ROWS, 0),
    Outcome.RETURNED: (Kind.ROLLBACK, int(Flag.REDELIVERED)),
    Outcome.REJECTED: (Kind.ROLLBACK, int(Flag.REJECTED)),
}


class StompSubscription:
    def __init__(
        self, commands: NativeCommands, link: int, headers: SubscribeHeaders, version: str, tag: str,
        opening: PendingReceipts[str],
    ) -> None:  # fmt: skip
        self._commands = commands
        self.link = link
        self.headers = headers
        # The receipts for SUBSCRIBE, which is done when the broker has opened the consumer.
        self.opening = opening
        self.last_delivery = 0
        # The destination of the next deliveries; "": the one of the subscription.
        self.origin = ""
        self._version = version
        self._writer = MessageWriter(version, f"{tag}-".encode(), acknowledged=headers.acknowledge != "auto")
        self._heads: dict[tuple[str, int, int], bytes] = {}
        # Unacknowledged ids; and how many messages an ABORT returned for which credit was granted already.
        self._unacknowledged = UnacknowledgedRanges()
        self._credit_granted_early = 0
        self._end_sent = False
        # Mode auto: messages delivered since the last acknowledgement.
        self._delivered = 0

    # Deliveries

    def deliver(self, frame: Frame) -> bytes:
        """MESSAGE frames."""
        _, flags, delivery_count, _, first, rows, data = frame
        self.last_delivery = first + rows - 1
        if self.headers.acknowledge == "auto":
            self._delivered += rows
        else:
            self._unacknowledged.add(first, self.last_delivery)
        head = self._head(flags & (_REDELIVERED | _PERSISTENT), delivery_count)
        return self._writer.write(head, first, Payload(data, rows, flags & FORM))

    def seen(self) -> bytes:
        """The browser has read the whole queue: send a message that says so, once."""
        if self._end_sent:
            return b""
        self._end_sent = True
        return b"%bmessage-id:end\nbrowser:end\ncontent-length:0\n\n\0" % self._head(0, 0)

    def _head(self, flags: int, delivery_count: int) -> bytes:
        key = self.origin, flags, delivery_count
        head = self._heads.get(key)
        if head is None:
            if len(self._heads) >= _MOST_HEADS:
                self._heads.clear()
            head = self._heads[key] = self._new_head(flags, delivery_count)
        return head

    def _new_head(self, flags: int, delivery_count: int) -> bytes:
        subscribe = self.headers
        # A client knows its temporary queue by the name that it chose, not by the broker's.
        written = stomp_name(self.origin, subscribe.written) if self.origin else subscribe.written
        headers = {"destination": written}
        if subscribe.id is not None:
            headers["subscription"] = subscribe.id
        if flags & _PERSISTENT:
            headers["persistent"] = "true"
        if flags & _REDELIVERED:
            headers |= {"redelivered": "true", "JMSXDeliveryCount": str(delivery_count + 1)}
        return b"MESSAGE\n" + b"".join(header_line(name, value, self._version) for name, value in headers.items())

    # Acknowledgements

    def acknowledge_auto(self) -> None:
        rows, self._delivered = self._delivered, 0
        if rows:
            self._commands.add(Kind.ACKNOWLEDGE, link=self.link, first=self.last_delivery, amount=rows)

    def take(self, ids: Sequence[int]) -> list[IdRange]:
        """Remove and return the ranges of an ACK or NACK; in mode client with all earlier ids. Raises StompError."""
        if max(ids) > self.last_delivery:
            raise StompError(f"message {max(ids)} of subscription {self.link} was not delivered yet")
        if self.headers.acknowledge == "client":
            return self._unacknowledged.take(0, max(ids))
        return [part for first, last in ranges_of(ids) for part in self._unacknowledged.take(first, last)]

    def settle(self, ranges: Sequence[IdRange], outcome: Outcome, session: int = 0) -> None:
        """Acknowledge the ranges, or roll them back; in the transaction of the session if there is one."""
        kind, flags = _COMMANDS[outcome]
        within = session if outcome is Outcome.ACCEPTED else 0
        for first, last in ranges:
            rows = last - first + 1
            self._commands.add(kind, flags=flags, session=within, link=self.link, first=first, amount=rows)

    def grant_credit(self, ranges: Sequence[IdRange]) -> None:
        """Grant credit for as many messages as the ranges have."""
        rows = count(ranges)
        granted = min(rows, self._credit_granted_early)
        self._credit_granted_early -= granted
        if rows > granted:
            self._commands.add(Kind.ACKNOWLEDGE, link=self.link, amount=rows - granted)

    def restore(self, ranges: Sequence[IdRange]) -> None:
        """A transaction was aborted: the ranges are unacknowledged again."""
        self._unacknowledged.add_all(ranges)
        self._credit_granted_early += count(ranges)


class StompSubscriptions:
    """`session` is the name of the connection, and the prefix of its message ids."""

    def __init__(self, commands: NativeCommands, receipts: Receipts[str], session: str) -> None:
        self._commands = commands
        self._receipts = receipts
        self._session = session
        self._by_key: dict[str, StompSubscription] = {}
        self._by_link: dict[int, StompSubscription] = {}
        self._last_link = 0
        # Mode auto: subscriptions with deliveries that are not acknowledged yet.
        self._to_acknowledge: set[StompSubscription] = set()

    def open(self, headers: SubscribeHeaders, destination: str, version: str, receipts: Sequence[str]) -> None:
        """Raises StompError."""
        if headers.key in self._by_key:
            raise StompError(f"there is a subscription {headers.key[:80]!r} already")
        link = self._last_link = self._commands.new_link()
        opening, tag = self._receipts.expect(receipts), f"{self._session}-{link}"
        subscription = StompSubscription(self._commands, link, headers, version, tag, opening)
        self._by_key[headers.key] = self._by_link[link] = subscription
        self._commands.add_json(
            Kind.OPEN_CONSUMER, {"destination": destination, **headers.options}, session=1, link=link,
            amount=headers.prefetch,
        )  # fmt: skip

    def find(self, headers: Mapping[str, str]) -> StompSubscription | None:
        """The subscription that an UNSUBSCRIBE names."""
        return self._by_key.get(headers.get("id", headers.get("destination", "")))

    def close(self, subscription: StompSubscription) -> None:
        del self._by_key[subscription.headers.key], self._by_link[subscription.link]
        self._to_acknowledge.discard(subscription)
        self._commands.add(Kind.CLOSE, link=subscription.link, first=subscription.last_delivery)

    def linked(self, link: int) -> StompSubscription | None:
        return self._by_link.get(link)

    def deliver(self, frame: Frame) -> bytes:
        """MESSAGE frames."""
        subscription = self._by_link.get(frame.link)
        if subscription is None:
            return b""
        if subscription.headers.acknowledge == "auto":
            self._to_acknowledge.add(subscription)
        return subscription.deliver(frame)

    def acknowledge_auto(self) -> None:
        """Acknowledge deliveries of mode auto, which have been written to the socket."""
        for subscription in self._to_acknowledge:
            subscription.acknowledge_auto()
        self._to_acknowledge.clear()

    def deliveries_of(self, written: Sequence[str]) -> list[tuple[StompSubscription, list[int]]]:
        """The delivery ids in these message ids, in order, by subscription. Raises StompError.

        It skips deliveries of a closed subscription: they are back on their queue.
        """
        deliveries: list[tuple[StompSubscription, list[int]]] = []
        for text in written:
            tag, _, number = text.rpartition("-")
            session, _, link = tag.rpartition("-")
            if session != self._session or not _is_number(link) or not _is_number(number):
                raise StompError(f"{text[:80]!r} is not a message of this connection")
            subscription = self._by_link.get(int(link))
            if subscription is None:
                if int(link) > self._last_link:
                    raise StompError(f"{text[:80]!r} is not a message of this connection")
            elif deliveries and deliveries[-1][0] is subscription:
                deliveries[-1][1].append(int(number))
            else:
                deliveries.append((subscription, [int(number)]))
        return deliveries


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20
