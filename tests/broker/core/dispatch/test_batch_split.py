"""A batch from which messages are taken one by one: nobody can tell that it was taken apart."""

import pytest

from broker.core.commands import Driven
from broker.core.payloads import alike, batch, values_of
from mqlab.broker.core.model.messages import FOOTPRINT
from mqlab.wire.native.bodies import SINGLE

MANY = 600
BODIES = [b"%d" % number for number in range(MANY)]


def singles_in_list(driven: Driven) -> int:
    return sum(span.whole().form & SINGLE for span in driven.queue("q").spans())


@pytest.mark.parametrize("room", [1, 2, 3, 4])
def test_all_come_in_order_and_nothing_is_left(room: int) -> None:
    driven = Driven()
    consumer = driven.consumer("queue:q", room)
    driven.send(driven.producer("queue:q"), *BODIES)
    for done in range(room, MANY + 1, room):
        assert driven.got(consumer)[done - room :] == BODIES[done - room : done]
        driven.acknowledge(consumer, done, room)
    assert (driven.left("q"), driven.memory, driven.queue("q").messages) == ([], 0, 0)


def test_they_are_counted_as_what_they_are() -> None:
    driven = Driven()
    driven.send(driven.producer("queue:q"), *BODIES)
    driven.consumer("queue:q", 1)
    assert singles_in_list(driven) == MANY - 1
    assert driven.memory == sum(map(len, BODIES)) + MANY * FOOTPRINT
    assert driven.left("q") == BODIES[1:]


def test_a_batch_that_is_too_large_stays_together() -> None:
    driven = Driven()
    driven.send(driven.producer("queue:q"), *(b"%d" % number for number in range(5000)))
    consumer = driven.consumer("queue:q", 1)
    assert (driven.got(consumer), singles_in_list(driven)) == ([b"0"], 0)


def test_who_has_more_room_gets_a_part_and_a_small_batch_stays() -> None:
    driven = Driven()
    producer = driven.producer("queue:q")
    driven.send(producer, *BODIES[:15])
    consumer = driven.consumer("queue:q", 1)
    assert singles_in_list(driven) == 0
    driven.send(producer, *BODIES[15:])
    driven.acknowledge(consumer, 0, 99)
    assert (driven.got(consumer), singles_in_list(driven)) == (BODIES[:100], 0)


def test_who_waits_for_room_goes_on_when_messages_have_left() -> None:
    driven = Driven(queue_limit=4400, producer_window=3000)
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q", 0)
    for _ in range(2):
        driven.send(producer, *[b"x" * 100] * 20)
    assert producer in driven.core.flow.held
    # Taken apart it has fewer bytes, and no longer makes the queue full.
    driven.acknowledge(consumer, 0, 1)
    for done in range(1, 41):
        driven.acknowledge(consumer, done, 1)
    assert producer not in driven.core.flow.held
    assert driven.memory == 0


def test_headers_marks_and_ids_stay() -> None:
    driven = Driven()
    producer = driven.producer("queue:q")
    driven.put(producer, batch(*((b"%d" % n, {"type": f"t{n}"} if n % 2 else {"count": n}) for n in range(20))))
    first = driven.consumer("queue:q", 20)
    driven.close(first, seen=20)
    consumer = driven.consumer("queue:q", 1)
    for number in range(20):
        span = driven.spans[consumer][number]
        assert (span.first_id, span.delivered, span.rows) == (number + 1, 1, 1)
        payload = span.encoded()
        assert values_of(payload, "type") == [f"t{number}" if number % 2 else None]
        assert values_of(payload, "count") == [None if number % 2 else number]
        driven.acknowledge(consumer, number + 1, 1)


def test_what_is_left_comes_back_after_a_restart() -> None:
    driven = Driven()
    consumer = driven.consumer("queue:q", 1)
    driven.send(driven.producer("queue:q"), *BODIES[:20], persistent=True)
    driven.sync()
    driven.acknowledge(consumer, 1, 1)
    driven.acknowledge(consumer, 2, 1)
    driven.sync()
    assert driven.restarted().left("q") == BODIES[2:20]


@pytest.mark.parametrize("headers", [{"expiration": 2_000_000}, {"priority": 9}])
def test_what_expires_stays_together_and_priorities_hold(headers: dict[str, int]) -> None:
    driven = Driven()
    producer = driven.producer("queue:q")
    driven.send(producer, *BODIES[:20])
    driven.put(producer, alike(BODIES[20:40], **headers))
    consumer = driven.consumer("queue:q", 1)
    for done in range(1, 41):
        driven.acknowledge(consumer, done, 1)
    first, second = BODIES[:20], BODIES[20:40]
    assert driven.got(consumer) == (second + first if "priority" in headers else first + second)
    assert driven.memory == 0


CORRELATED = batch(*((b"%d" % n, {"correlation_id": f"c{n}"}) for n in range(40)))


def test_messages_are_found_by_their_ids_before_and_after() -> None:
    for asks_first in (True, False):
        driven = Driven()
        driven.put(driven.producer("queue:q"), CORRELATED)
        other = driven.consumer("queue:q", 0)
        if asks_first:
            driven.receive(other, "c30")
        one = driven.consumer("queue:q", 1)
        assert singles_in_list(driven) == (0 if asks_first else 39)
        for number in (25, 35):
            driven.receive(other, f"c{number}")
        assert (driven.got(one), driven.got(other)[asks_first:]) == ([b"0"], [b"25", b"35"])


def test_messages_that_come_back_are_found_among_those_taken_apart() -> None:
    driven = Driven()
    driven.put(driven.producer("queue:q"), CORRELATED)
    holder = driven.consumer("queue:q", 10)
    driven.consumer("queue:q", 1)
    assert singles_in_list(driven) == 29
    driven.close(holder)
    other = driven.consumer("queue:q", 0)
    for number in (9, 39, 3, 20):
        driven.receive(other, f"c{number}")
    assert driven.got(other) == [b"9", b"39", b"3", b"20"]


def test_what_has_other_parts_of_its_batch_behind_it_stays_together() -> None:
    driven = Driven()
    driven.put(driven.producer("queue:q"), CORRELATED)
    holder = driven.consumer("queue:q", 10, selector="JMSCorrelationID LIKE 'c3_'")
    driven.consumer("queue:q", 1)
    driven.close(holder)
    other = driven.consumer("queue:q", 0)
    for number in (35, 20):
        driven.receive(other, f"c{number}")
    assert driven.got(other) == [b"35", b"20"]
