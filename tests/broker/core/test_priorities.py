"""Priorities 0 to 9: the highest first, and the order of sending inside each."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.wire.native.bodies import encode

from .commands import Driven
from .payloads import batch, single

level = st.integers(0, 9)
# Sends of one or several messages, each of a priority or of none.
sends = st.lists(st.lists(st.none() | level, min_size=1, max_size=6), min_size=1, max_size=12)


def test_the_highest_comes_first_and_each_keeps_its_order() -> None:
    driven = Driven()
    producer = driven.producer("queue:q")
    for number in range(20):
        driven.put(producer, single(b"%d" % number, priority=number % 10))
    got = [int(body) for body in driven.got(driven.consumer("queue:q"))]
    assert got == [*(n for high in range(9, -1, -1) for n in (high, high + 10))]


def test_a_message_without_a_priority_has_the_middle_one() -> None:
    driven = Driven()
    producer = driven.producer("queue:q")
    for priority in (3, 4, 5):
        driven.put(producer, single(b"%d" % priority, priority=priority))
        driven.send(producer, b"none")
    assert driven.got(driven.consumer("queue:q")) == [b"5", b"none", b"4", b"none", b"none", b"3"]


def test_one_batch_can_have_all_priorities() -> None:
    driven = Driven()
    producer = driven.producer("queue:q")
    rows = [(b"%d.%d" % (turn, priority), {"priority": priority}) for turn in range(3) for priority in range(10)]
    driven.put(producer, batch(*rows))
    got = driven.got(driven.consumer("queue:q"))
    assert got == [b"%d.%d" % (turn, priority) for priority in range(9, -1, -1) for turn in range(3)]
    assert (driven.queue("q").messages, driven.frames.popitem()[1]) == (30, 10)


def test_part_of_a_batch_may_have_a_priority() -> None:
    driven = Driven()
    driven.put(
        driven.producer("queue:q"), batch((b"a", {}), (b"b", {"priority": 9}), (b"c", {}), (b"d", {"priority": 0}))
    )
    assert driven.got(driven.consumer("queue:q")) == [b"b", b"a", b"c", b"d"]


def test_the_highest_of_a_batch_goes_to_who_waits_already() -> None:
    driven = Driven()
    one, two = driven.consumer("queue:q", 1), driven.consumer("queue:q", 1)
    rows = [(b"%d" % priority, {"priority": priority, "correlation_id": "a"}) for priority in (1, 9, 0, 5)]
    driven.put(driven.producer("queue:q"), batch(*rows))
    assert (driven.got(one), driven.got(two)) == ([b"9"], [b"5"])
    keyed = driven.consumer("queue:q", 0)
    for _ in range(3):
        driven.receive(keyed, "a")
    driven.forget(keyed)
    driven.put(driven.producer("queue:q"), batch(*rows))
    assert driven.got(keyed) == [b"9"]


@pytest.mark.parametrize(("given_", "counts_as"), [(-1, 0), (-128, 0), (10, 9), (127, 9)])
def test_a_priority_out_of_range_is_the_nearest(given_: int, counts_as: int) -> None:
    driven = Driven()
    producer = driven.producer("queue:q")
    driven.put(producer, single(b"first", priority=counts_as))
    driven.put(producer, single(b"odd", priority=given_))
    driven.put(producer, batch((b"odd, too", {"priority": given_}), (b"other", {"priority": 5})))
    driven.put(producer, single(b"last", priority=counts_as))
    got = driven.got(driven.consumer("queue:q"))
    assert [body for body in got if body != b"other"] == [b"first", b"odd", b"odd, too", b"last"]


def test_a_higher_priority_goes_ahead_of_what_waits_already() -> None:
    driven = Driven()
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q", 2)
    driven.send(producer, b"1", b"2", b"3", b"4")
    driven.put(producer, single(b"urgent", priority=9))
    driven.acknowledge(consumer, 2, 3)
    assert driven.got(consumer) == [b"1", b"2", b"urgent", b"3", b"4"]


def test_what_comes_back_stands_before_its_own_priority_only() -> None:
    driven = Driven()
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q", 2)
    driven.put(producer, single(b"low", priority=1))
    driven.put(producer, single(b"low too", priority=1))
    driven.put(producer, single(b"low at last", priority=1))
    driven.put(producer, single(b"high", priority=8))
    driven.close(consumer)
    assert driven.left("q") == [b"high", b"low", b"low too", b"low at last"]


def test_priorities_hold_after_a_restart() -> None:
    driven = Driven()
    producer = driven.producer("queue:q")
    driven.put(
        producer, batch((b"a", {"priority": 1}), (b"b", {"priority": 9}), (b"c", {"priority": 1})), persistent=True
    )
    driven.put(producer, single(b"d", priority=9), persistent=True)
    driven.sync()
    assert driven.restarted().left("q") == [b"b", b"d", b"a", b"c"]


@settings(deadline=None)
@given(sends, st.integers(1, 7), st.integers(1, 3))
def test_every_mixture_in_every_portion(levels: list[list[int | None]], credit: int, consumers: int) -> None:
    """Whatever the batches, the room and the number of consumers: together they get the one right order."""
    driven = Driven()
    producer = driven.producer("queue:q")
    sent: list[tuple[int, bytes]] = []
    for some in levels:
        rows = [(b"%d" % (len(sent) + at), {} if one is None else {"priority": one}) for at, one in enumerate(some)]
        sent += [(4 if one is None else one, body) for one, (body, _) in zip(some, rows, strict=True)]
        driven.put(producer, batch(*rows) if any(values for _, values in rows) else encode([body for body, _ in rows]))
    right = [body for _, body in sorted(sent, key=lambda one: -one[0])]
    taken: list[bytes] = []
    links = [driven.consumer("queue:q", 0) for _ in range(consumers)]
    while len(taken) < len(right):
        link = links[len(taken) % consumers]
        driven.acknowledge(link, link.next_delivery, credit)
        taken += driven.got(link)
        driven.forget(link)
        driven.do(driven.core.cancel_receives, link)
    assert taken == right
