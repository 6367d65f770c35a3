"""StompSubscriptions of a connection: what they deliver, and what their client acknowledges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from mqlab.broker.server.stomp.commands import NativeCommands
from mqlab.broker.server.stomp.messages.destination_names import stomp_name
from mqlab.broker.server.stomp.messages.unpacking import MessageWriter, header_line
from mqlab.broker.server.stomp.receipts import PendingReceipts, Receipts
from mqlab.broker.server.stomp.subscribe_headers import SubscribeHeaders
from mqlab.broker.server.stomp.unacknowledged import IdRange, UnacknowledgedRanges, count, runs_of
from mqlab.wire.native.bodies import Payload
from mqlab.wire.native.frames import FORM, Flag, Frame, Kind
from mqlab.wire.stomp import StompError

_REDELIVERED, _PERSISTENT = int(Flag.REDELIVERED), int(Flag.PERSISTENT)
# What messages have in common is remembered for so many kinds of them.
_HEADS: Final = 64


class StompSubscription:
    def __init__(
        self, commands: NativeCommands, link: int, headers: SubscribeHeaders, version: str, tag: str,
        opening: PendingReceipts,
    ) -> None:  # fmt: skip
        self._commands = commands
        self.link = link
        self.headers = headers
        # The SUBSCRIBE, which is done when the broker has opened the consumer.
        self.opening = opening
        self.last_delivery = 0
        # Where what comes next was sent to; "": where it is subscribed to.
        self._origin = ""
        self._version = version
        self._writer = MessageWriter(version, f"{tag}-".encode(), acknowledged=headers.acknowledge != "auto")
        self._heads: dict[tuple[str, int, int], bytes] = {}
        # Not acknowledged; and messages given back to it for which it was given room already.
        self._held = UnacknowledgedRanges()
        self._debt = 0
        self._told_end = False
        # In mode auto: delivered since the broker was last told that it is done.
        self._delivered = 0

    # What comes

    def comes_from(self, origin: str) -> None:
        self._origin = origin

    def deliver(self, frame: Frame) -> bytes:
        """MESSAGE frames."""
        _, flags, before, _, first, rows, data = frame
        self.last_delivery = first + rows - 1
        if self.headers.acknowledge == "auto":
            self._delivered += rows
        else:
            self._held.add(first, self.last_delivery)
        head = self._head(flags & (_REDELIVERED | _PERSISTENT), before)
        return self._writer.write(head, first, Payload(data, rows, flags & FORM))

    def seen(self) -> bytes:
        """A browser has seen all: a message that says so, once."""
        if self._told_end:
            return b""
        self._told_end = True
        return b"%bmessage-id:end\nbrowser:end\ncontent-length:0\n\n\0" % self._head(0, 0)

    def _head(self, flags: int, before: int) -> bytes:
        key = self._origin, flags, before
        head = self._heads.get(key)
        if head is None:
            if len(self._heads) >= _HEADS:
                self._heads.clear()
            head = self._heads[key] = self._new_head(flags, before)
        return head

    def _new_head(self, flags: int, before: int) -> bytes:
        subscribe = self.headers
        # A client knows its temporary queue by the name that it chose, not by the broker's.
        written = stomp_name(self._origin, subscribe.written) if self._origin else subscribe.written
        headers = {"destination": written}
        if subscribe.id is not None:
            headers["subscription"] = subscribe.id
        if flags & _PERSISTENT:
            headers["persistent"] = "true"
        if flags & _REDELIVERED:
            headers |= {"redelivered": "true", "JMSXDeliveryCount": str(before + 1)}
        return b"MESSAGE\n" + b"".join(header_line(name, value, self._version) for name, value in headers.items())

    # What is done

    def settle_auto(self) -> None:
        room, self._delivered = self._delivered, 0
        if room:
            self._commands.add(Kind.ACKNOWLEDGE, link=self.link, first=self.last_delivery, amount=room)

    def taken(self, ids: Sequence[int]) -> list[IdRange]:
        """What an ACK or NACK of these ids is about: in mode client also all before them. Raises StompError."""
        if max(ids) > self.last_delivery:
            raise StompError(f"message {max(ids)} of subscription {self.link} was not delivered yet")
        if self.headers.acknowledge == "client":
            return self._held.take(0, max(ids))
        return [part for first, last in runs_of(ids) for part in self._held.take(first, last)]

    def settle(self, ranges: Sequence[IdRange], *, accepted: bool, session: int = 0) -> None:
        """Tell the broker, in the transaction of that session if there is one."""
        for first, last in ranges:
            kind, flags = (Kind.ACKNOWLEDGE_ROWS, 0) if accepted else (Kind.ROLLBACK, _REDELIVERED)
            within = session if accepted else 0
            rows = last - first + 1
            self._commands.add(kind, flags=flags, session=within, link=self.link, first=first, amount=rows)

    def make_room(self, ranges: Sequence[IdRange]) -> None:
        """For as many messages as were taken."""
        room = count(ranges)
        paid = min(room, self._debt)
        self._debt -= paid
        if room > paid:
            self._commands.add(Kind.ACKNOWLEDGE, link=self.link, amount=room - paid)

    def take_again(self, ranges: Sequence[IdRange]) -> None:
        """They are not acknowledged after all."""
        self._held.add_all(ranges)
        self._debt += count(ranges)


class StompSubscriptions:
    """`session` is the name of the connection, with which the ids of its messages begin."""

    def __init__(self, commands: NativeCommands, receipts: Receipts, session: str) -> None:
        self._commands = commands
        self._receipts = receipts
        self._session = session
        self._named: dict[str, StompSubscription] = {}
        self._linked: dict[int, StompSubscription] = {}
        self._last_link = 0
        # In mode auto: those that delivered something of which the broker does not know yet that it is done.
        self._unsettled: set[StompSubscription] = set()

    def open(self, headers: SubscribeHeaders, destination: str, version: str, receipts: Sequence[str]) -> None:
        """Raises StompError."""
        if headers.key in self._named:
            raise StompError(f"there is a subscription {headers.key[:80]!r} already")
        link = self._last_link = self._commands.new_link()
        opening, tag = self._receipts.expect(receipts), f"{self._session}-{link}"
        opened = StompSubscription(self._commands, link, headers, version, tag, opening)
        self._named[headers.key] = self._linked[link] = opened
        self._commands.say(
            Kind.OPEN_CONSUMER, {"destination": destination, **headers.said}, session=1, link=link,
            amount=headers.prefetch,
        )  # fmt: skip

    def find(self, headers: Mapping[str, str]) -> StompSubscription | None:
        """That which an UNSUBSCRIBE is about."""
        return self._named.get(headers.get("id", headers.get("destination", "")))

    def close(self, subscription: StompSubscription) -> None:
        del self._named[subscription.headers.key], self._linked[subscription.link]
        self._unsettled.discard(subscription)
        self._commands.add(Kind.CLOSE, link=subscription.link, first=subscription.last_delivery)

    def linked(self, link: int) -> StompSubscription | None:
        return self._linked.get(link)

    def deliver(self, frame: Frame) -> bytes:
        """MESSAGE frames."""
        subscription = self._linked.get(frame.link)
        if subscription is None:
            return b""
        if subscription.headers.acknowledge == "auto":
            self._unsettled.add(subscription)
        return subscription.deliver(frame)

    def settle_auto(self) -> None:
        """In mode auto what has left is done."""
        for subscription in self._unsettled:
            subscription.settle_auto()
        self._unsettled.clear()

    def of_messages(self, written: Sequence[str]) -> list[tuple[StompSubscription, list[int]]]:
        """The deliveries that these ids of messages stand for, in their order. Raises StompError.

        Those of a subscription that was closed went back to their queue.
        """
        found: list[tuple[StompSubscription, list[int]]] = []
        for text in written:
            tag, _, number = text.rpartition("-")
            session, _, link = tag.rpartition("-")
            if session != self._session or not _is_number(link) or not _is_number(number):
                raise StompError(f"{text[:80]!r} is no message of this connection")
            subscription = self._linked.get(int(link))
            if subscription is None:
                if int(link) > self._last_link:
                    raise StompError(f"{text[:80]!r} is no message of this connection")
            elif found and found[-1][0] is subscription:
                found[-1][1].append(int(number))
            else:
                found.append((subscription, [int(number)]))
        return found


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20
