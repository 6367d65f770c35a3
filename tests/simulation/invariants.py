"""Invariants of every delivery and every confirmation, and of the state between commands."""

from __future__ import annotations

from collections.abc import Iterable

from .books import Books, Fault
from .copies import Copy, Deed, Event, Place, Work
from .known_consumers import Taker


def delivered(books: Books, taker: Taker, first: int, numbers: Iterable[int], count: int) -> None:
    """A consumer is given these messages; the broker says that they may have been delivered `count` times before."""
    for delivery, number in enumerate(numbers, first):
        copy = located(books, number, taker.place)
        about = f"message {number} of {copy.line.name} on {taker.place.name}"
        _check_state(books, copy, about)
        _check_taker(taker, copy, about)
        if copy.seen and not count:
            raise Fault(f"{about}: comes again without the mark")
        if copy.count != count:
            raise Fault(f"{about}: delivered {copy.count} times before, and the broker says {count}")
        if taker.keys is None:
            _check_turn(books, taker, copy, about)
        copy.state, copy.holder, copy.since = "held", taker, books.command
        taker.held.append((delivery, copy))
        books.count("delivered")
        books.count("redelivered", bool(count))


def located(books: Books, number: int, place: Place) -> Copy:
    """The message, which is at this place if it may be."""
    copies = books.copies.get(number, [])
    for copy in copies:
        if copy.state != "gone" and copy.place is place:
            copy.unsure = place.drops
            return copy
    for copy in copies:
        if copy.state != "gone" and any(one is place for _, one in copy.path):
            copy.be_at(place)
            copy.unsure, copy.count, copy.seen = False, 0, False
            return copy
    for copy in copies:
        if copy.state == "line" and copy.is_late(books.latest) and copy.place.policy.expired == place.name:
            # It is delivered, so the record that moved it is on disk.
            copy.move(place, Event(0, books.durable))
            return copy
    raise Fault(f"message {number} on {place.name}: {'comes again after its end' if copies else 'was never sent'}")


def _check_state(books: Books, copy: Copy, about: str) -> None:
    if copy.state != "line":
        raise Fault(f"{about}: delivered while it is {copy.state}")
    if copy.shown.outcome(books.durable) in ("no", "prepared"):
        raise Fault(f"{about}: delivered before its record is durable")
    if copy.is_late(books.now):
        raise Fault(f"{about}: delivered at {books.now}, and it expired at {copy.expires}")
    if copy.due > books.now and copy.message.due_steady > books.steady:
        raise Fault(f"{about}: delivered at {books.now}, and it is due at {copy.due}")


def _check_taker(taker: Taker, copy: Copy, about: str) -> None:
    if taker.keys is not None:
        if copy.message.key not in taker.keys:
            raise Fault(f"{about}: nobody asked for key {copy.message.key!r}")
        taker.keys.remove(copy.message.key)
        return
    if not taker.has_room:
        raise Fault(f"{about}: delivered to a consumer without room")
    taker.room -= 1
    if not taker.wants(copy):
        raise Fault(f"{about}: is {copy.message.colour!r}, and the selector asks for {taker.colour!r}")
    exclusive = next((one for one in taker.place.takers if one.exclusive), taker)
    if exclusive is not taker:
        raise Fault(f"{about}: delivered in spite of an exclusive consumer")
    group = copy.message.group
    if group and taker.place.groups.setdefault(group, taker) is not taker:
        raise Fault(f"{about}: group {group!r} is another consumer's")


def _check_turn(books: Books, taker: Taker, copy: Copy, about: str) -> None:
    """Nothing that this consumer should have had before is still in line."""
    for other in taker.place.copies.values():
        if other is copy or other.state != "line" or not taker.wants(other):
            continue
        if _is_before(other, copy, books.latest) and not _was_decided_late(books, other):
            raise Fault(f"{about}: overtakes message {other.message.number} of the same producer")
        group = other.message.group
        if other.message.priority > copy.message.priority and not group and books.surely_visible(other):
            raise Fault(f"{about}: overtakes message {other.message.number} of a higher priority")


def _is_before(other: Copy, copy: Copy, latest: int) -> bool:
    """Whether the order of a producer's messages puts it before the other: same priority, same group."""
    if other.line is not copy.line or other.order >= copy.order or other.moved or copy.moved:
        return False
    if other.unsure or other.due or other.is_late(latest):
        return False
    one, another = other.message, copy.message
    return (one.priority, one.group) == (another.priority, another.group)


def _was_decided_late(books: Books, other: Copy) -> bool:
    """A prepared transaction takes its place when it is decided about: others may have gone before."""
    if other in books.back_by_decision:
        return True
    return isinstance(other.put, Work) and other.put.prepare is not None and not books.surely_visible(other)


def promised(books: Books, deed: Deed, about: str) -> None:
    """Somebody was told that it is safe."""
    if deed.outcome(books.durable) in ("no", "prepared"):
        raise Fault(f"{about}: confirmed before it is durable")
    books.count("promises")


def nobody_waits_in_vain(books: Books) -> None:
    """Between commands there is no message in line that somebody has room for."""
    books.command += 1
    books.durable_before = books.durable
    for place in books.places.values():
        exclusive = next((one for one in place.takers if one.exclusive), None)
        for taker in place.takers:
            if not taker.has_room or taker.keys is not None or exclusive not in (None, taker):
                continue
            for copy in place.copies.values():
                if taker.wants(copy) and not copy.message.group and books.surely_visible(copy):
                    raise Fault(f"message {copy.message.number} on {place.name}: in line, and a consumer has room")
