"""After a crash: the state that recovery found against the books, for the journal as it ended."""

from __future__ import annotations

from mqlab.broker.core.durability.records import Prepare
from mqlab.broker.store.recovery.recovery import RecoveredState

from .books import Books, Fault
from .clock import Clock
from .copies import LONG_AGO, Copy, Either, Outcome, Place, Work
from .messages import numbers_in

# Message -> the queues (by number) on which it was found.
Found = dict[int, list[int]]


def settle(books: Books, recovered: RecoveredState, clock: Clock) -> None:
    """Raises Fault. Afterwards the books say what is true in the new life."""
    books.update_clock(clock)
    last = recovered.lsn
    _settle_places(books, recovered, last)
    _settle_prepared(books, recovered, last)
    found = _found(recovered)
    for number, copies in [*books.copies.items()]:
        books.copies[number] = [copy for copy in copies if _settle_copy(books, copy, last, found)]
    left = {number: queues for number, queues in found.items() if queues}
    if left:
        number, queues = next(iter(left.items()))
        raise Fault(f"message {number}: came back on queue {queues[0]} after its end, or was never sent")
    books.copies = {number: copies for number, copies in books.copies.items() if copies}
    _settle_remembered(books, recovered, last)
    books.begin_again(last)


def _found(recovered: RecoveredState) -> Found:
    found: Found = {}
    for queue, content in recovered.queues.items():
        for span in content.spans():
            for number in numbers_in(span.encoded()):
                found.setdefault(number, []).append(queue)
    return found


def _settle_places(books: Books, recovered: RecoveredState, last: int) -> None:
    for number, place in [*books.places.items()]:
        place.takers, place.groups = [], {}
        expected = _both(place.made.outcome(last), place.removed.outcome(last) if place.removed else "no")
        there = number in recovered.queues
        if place.stored and expected is not None and there != expected:
            raise Fault(f"{place.name} is {'there' if there else 'gone'} after record {last}")
        if there and place.stored:
            place.made, place.removed = LONG_AGO, None
        else:
            del books.places[number]
    if unknown := recovered.queues.keys() - books.places.keys():
        raise Fault(f"queues {unknown} were never made")


def _both(came: Outcome, went: Outcome) -> bool | None:
    """Whether something is there that came and went by these deeds."""
    if came in ("no", "prepared") or went == "yes":
        return False
    return None if None in (came, went) else True


def _settle_copy(books: Books, copy: Copy, last: int, found: Found) -> bool:
    """Whether it is still to be reckoned with."""
    places = _possible(books, copy, last)
    number = copy.message.number
    hits = [queue for queue in found.get(number, []) if any(place.number == queue for place in places)]
    if not copy.lasting:
        copy.go(LONG_AGO)
        return False
    came, went = copy.put.outcome(last), "no" if copy.gone is None else copy.gone.outcome(last)
    expected = _both(came, went)
    about = f"message {number} of {copy.line.name} on {copy.place.name}"
    if hits and expected is False:
        raise Fault(f"{about}: is there after record {last}")
    if len(hits) > 1:
        raise Fault(f"{about}: is there {len(hits)} times")
    for queue in hits:
        found[number].remove(queue)
    excused = copy.unsure or copy.is_late(books.latest) or copy.place.number not in books.places
    if not hits and expected and not excused:
        raise Fault(f"{about}: is lost after record {last}")
    if not excused:
        _tell(copy, came, went, there=bool(hits), about=about)
    return _begin_again(books, copy, hits, came, went)


def _possible(books: Books, copy: Copy, last: int) -> list[Place]:
    places = copy.places(last)
    policy = copy.place.policy
    if policy.expired and copy.is_late(books.latest):
        places += [place for place in books.places.values() if place.name == policy.expired]
    return places


def _tell(copy: Copy, came: Outcome, went: Outcome, *, there: bool, about: str) -> None:
    """What one message of a transaction shows, all others must show, too."""
    for deed, outcome, happened in ((copy.put, came, there), (copy.gone, went, not there)):
        # Only where the other deed leaves no doubt.
        other = went if deed is copy.put else came
        if isinstance(deed, Work) and outcome is None and other == ("no" if deed is copy.put else "yes"):
            if deed.told not in (None, happened):
                raise Fault(f"{about}: a part of a transaction happened, and a part did not")
            deed.told = happened


def _begin_again(books: Books, copy: Copy, hits: list[int], came: Outcome, went: Outcome) -> bool:
    if came == "prepared" and copy.place.number in books.places:
        copy.be_at(copy.place)
        copy.state, copy.gone = "waiting", None
        return True
    if not hits:
        copy.go(LONG_AGO)
        return False
    copy.be_at(books.places[hits[0]])
    copy.path, copy.put, copy.shown = [(LONG_AGO, copy.place)], LONG_AGO, LONG_AGO
    copy.state, copy.count, copy.doubtful, copy.seen, copy.unsure = "line", 1, 1, False, copy.place.drops
    if went == "prepared":
        # Nothing else that was done to it in the life before has happened.
        copy.state, copy.gone = "leaving", copy.gone.first if isinstance(copy.gone, Either) else copy.gone
    else:
        copy.gone = copy.holder = None
    return True


def _settle_prepared(books: Books, recovered: RecoveredState, last: int) -> None:
    for xid, work in books.all_prepared():
        outcome = work.outcome(last)
        if outcome is not None and (outcome == "prepared") != (xid in recovered.prepared):
            raise Fault(f"transaction {xid} is {outcome} after record {last}, and recovery says otherwise")
    known = dict(books.all_prepared())
    for xid, said in recovered.prepared.items():
        if xid not in known:
            raise Fault(f"transaction {xid} was never prepared")
        _check_prepared(books, known[xid], said)
    books.prepared = {xid: known[xid] for xid in recovered.prepared}
    for work in books.prepared.values():
        work.prepare, work.decide = LONG_AGO, None


def _check_prepared(books: Books, work: Work, said: Prepare) -> None:
    """Each of its messages is in it, for every place that is still there."""
    found = sorted(
        (queue, number) for put in said.puts for queue, _ in put.targets for number in numbers_in(put.payload)
        if queue in books.places
    )  # fmt: skip
    made = [(copy.place.number, copy.message.number) for copy in work.made if copy.lasting]
    missing = {one for one in made if one[0] in books.places} - set(found)
    if missing or len(set(found)) < len(found):
        raise Fault(f"transaction {work.xid} has {found} prepared, and {made} was asked for")


def _settle_remembered(books: Books, recovered: RecoveredState, last: int) -> None:
    """A duplicate must be known if its message is safe, and only then: else its sender would be told it is."""
    for (destination, given), deed in [*books.given.items()]:
        known = given in recovered.remembered.get(destination, ())
        outcome = deed.outcome(last)
        if outcome == "yes" and not known:
            raise Fault(f"{given} to {destination} is no longer known as a duplicate")
        if outcome == "no" and known:
            raise Fault(f"{given} to {destination} is known as a duplicate, and its message never came")
        if known and outcome != "prepared":
            books.given[destination, given] = LONG_AGO
        elif outcome != "prepared":
            del books.given[destination, given]
