"""The end of a simulation: a consumer receives everything, and then nothing may be left anywhere."""

from __future__ import annotations

import random

from mqlab.broker.core.admin import totals
from mqlab.broker.store.segments import segment_numbers

from .books import Books, Fault
from .client import Client
from .copies import Place
from .host import SimulatedBroker
from .receiver import Receiver, Source
from .sender import Habits, Sender

# Everything is due by then, and much has expired.
_LATER_SECONDS = 10.0


def drain(broker: SimulatedBroker, books: Books, chance: random.Random, set_back_ms: int) -> None:
    """`set_back_ms`: of the wall clock, by which delays count after a restart."""
    manager = Client("manager", chance, books)
    manager.connect(broker)
    for xid in [*books.prepared]:
        manager.decide(xid, commit=True)
    come_to_rest(broker)
    broker.let_time_pass(_LATER_SECONDS + set_back_ms / 1000)
    come_to_rest(broker)
    takers: dict[Place, Client] = {}
    # Taking from one queue may put messages on another: those that nobody could read go to the dead letters.
    for _ in range(3):
        for place in [*books.places.values()]:
            if place not in takers and place.removed is None:
                takers[place] = _taker(broker, books, chance, place)
        for client in takers.values():
            _take_all(client)
        come_to_rest(broker)
    for client in (*takers.values(), manager):
        client.die()
    come_to_rest(broker)


def _taker(broker: SimulatedBroker, books: Books, chance: random.Random, place: Place) -> Client:
    client = Client(f"last on {place.name}", chance, books)
    if place.terms is None:
        source = Source(place.name, 1000)
    else:
        name = place.name.removeprefix("subscription:")
        shared = name if name == "crowd" else ""
        source = Source(f"topic:{place.terms.topic}", 1000, place.terms.colour, durable=name, shared=shared)
    client.receiver = Receiver(client, source)
    client.connect(broker)
    client.receiver.open()
    return client


def _take_all(client: Client) -> None:
    assert client.receiver is not None
    while client.inbox:
        client.handle_next()
    client.receiver.take_all()


def come_to_rest(broker: SimulatedBroker) -> None:
    """All that is under way comes to its end."""
    for _ in range(1000):
        broker.flush()
        broker.do_work()
        broker.end_work()
        broker.let_time_pass(0.001)
        if broker.is_idle or broker.failure is not None:
            return
    raise Fault("the journal does not come to rest")


def nothing_is_left(broker: SimulatedBroker, books: Books) -> None:
    books.forget_the_past()
    left = [copy for copy in books.all() if copy.state != "gone" and not copy.unsure and not copy.is_late(books.latest)]
    if left:
        about = [(copy.message.number, copy.place.name, copy.state) for copy in left[:5]]
        raise Fault(f"{len(left)} messages never came: {about}")
    core = broker.core
    found = {name: value for name, value in totals(core).items() if value}
    for expected in ("queues", "topics", "subscriptions", "holds", "held_ms", "monitoring"):
        found.pop(expected, None)
    if found:
        raise Fault(f"everything was consumed, and yet there is {found}")
    for queue in core.destinations.all_queues():
        if queue.hidden or queue.in_memory or queue.full or queue.oldest:
            raise Fault(f"{queue.full_name} is empty, and not all of it knows: {queue.in_memory} bytes in memory")


def old_files_go(broker: SimulatedBroker, books: Books, chance: random.Random) -> None:
    """When nothing in them is needed: a mistake in counting that would keep them for ever."""
    client = Client("last of all", chance, books)
    client.connect(broker)
    client.sender = Sender(client, "queue:last of all", Habits(persistent=1.0, batch=1.0))
    client.receiver = Receiver(client, Source("queue:last of all", 1000))
    client.receiver.open()
    newest = max(segment_numbers(broker.folder))
    least = 2 * broker.settings.segment_size + broker.journal.counters.bytes
    # A file goes when a later sync is done, so some more messages than two files hold.
    while min(segment_numbers(broker.folder)) <= newest:
        if broker.journal.counters.bytes > 4 * least:
            raise Fault(f"journal file {min(segment_numbers(broker.folder))} stays, and nothing in it is needed")
        client.sender.go_on()
        come_to_rest(broker)
        _take_all(client)
    client.die()
    come_to_rest(broker)
