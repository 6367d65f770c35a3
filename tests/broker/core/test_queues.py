"""Queues: each message to one consumer, in order, and never more than it has room for."""

import pytest

from mqlab.broker import limits
from mqlab.broker.core.errors import CommandError

from .commands import Driven


def test_a_batch_is_delivered_as_the_batch_it_was_sent_as() -> None:
    driven = Driven()
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q")
    driven.send(producer, b"1", b"2", b"3")
    assert driven.got(consumer) == [b"1", b"2", b"3"]
    assert driven.frames[consumer] == 1


def test_messages_wait_for_a_consumer() -> None:
    driven = Driven()
    producer = driven.producer("queue:q")
    driven.send(producer, b"1", b"2")
    driven.send(producer, b"3")
    assert driven.got(driven.consumer("queue:q")) == [b"1", b"2", b"3"]


def test_consumers_take_turns() -> None:
    driven = Driven()
    one, two = driven.consumer("queue:q"), driven.consumer("queue:q")
    producer = driven.producer("queue:q")
    for n in range(4):
        driven.send(producer, b"%d" % n)
    assert sorted(driven.got(one) + driven.got(two)) == [b"0", b"1", b"2", b"3"]
    assert len(driven.got(one)) == len(driven.got(two)) == 2


def test_no_consumer_gets_more_than_it_has_room_for() -> None:
    driven = Driven()
    consumer = driven.consumer("queue:q", credit=2)
    driven.send(driven.producer("queue:q"), b"1", b"2", b"3", b"4", b"5")
    assert driven.got(consumer) == [b"1", b"2"]
    driven.acknowledge(consumer, 1, credit=1)
    assert driven.got(consumer) == [b"1", b"2", b"3"]
    driven.acknowledge(consumer, 1, credit=2)
    assert driven.got(consumer) == [b"1", b"2", b"3", b"4", b"5"]


def test_what_one_has_no_room_for_goes_to_the_next() -> None:
    driven = Driven()
    one, two = driven.consumer("queue:q", credit=1), driven.consumer("queue:q", credit=9)
    driven.send(driven.producer("queue:q"), b"1", b"2", b"3")
    assert driven.got(one) + driven.got(two) == [b"1", b"2", b"3"]


def test_a_paused_consumer_gets_nothing_until_it_is_resumed() -> None:
    driven = Driven()
    consumer = driven.consumer("queue:q")
    driven.core.pause(consumer)
    driven.send(driven.producer("queue:q"), b"1")
    assert driven.got(consumer) == []
    driven.do(driven.core.resume, consumer)
    assert driven.got(consumer) == [b"1"]


def test_what_a_lost_consumer_had_comes_again_in_order_and_marked() -> None:
    driven = Driven()
    one = driven.consumer("queue:q", credit=5)
    driven.send(driven.producer("queue:q"), *(b"%d" % n for n in range(8)))
    driven.acknowledge(one, 2)
    driven.lose(one.session)
    two = driven.consumer("queue:q")
    marked = [(b"%d" % n, True) for n in range(2, 5)]
    assert driven.delivered[two] == [*marked, *((b"%d" % n, False) for n in range(5, 8))]


def test_what_several_lost_consumers_had_comes_again_in_one_order() -> None:
    for first_to_go in (0, 1, 2):
        driven = Driven()
        consumers = [driven.consumer("queue:q", credit=2) for _ in range(3)]
        producer = driven.producer("queue:q")
        for n in range(9):
            driven.send(producer, b"%d" % n)
        for n in (first_to_go, (first_to_go + 2) % 3, (first_to_go + 1) % 3):
            driven.close(consumers[n])
        again = driven.consumer("queue:q")
        assert driven.delivered[again] == [(b"%d" % n, n < 6) for n in range(9)]


def test_an_acknowledgement_may_end_inside_a_batch() -> None:
    driven = Driven()
    consumer = driven.consumer("queue:q")
    driven.send(driven.producer("queue:q"), b"a" * 10, b"b" * 10, b"c" * 10)
    queue = driven.queue("q")
    driven.acknowledge(consumer, 2)
    assert queue.messages == 1
    assert 0 < queue.size < driven.memory + 1
    driven.acknowledge(consumer, 3)
    assert (queue.messages, queue.size, driven.memory) == (0, 0, 0)


def test_room_is_bounded() -> None:
    driven = Driven()
    consumer = driven.consumer("queue:q", credit=limits.PREFETCH - 1)
    driven.acknowledge(consumer, 0, credit=1)
    with pytest.raises(CommandError, match=str(limits.PREFETCH)):
        driven.acknowledge(consumer, 0, credit=1)


def test_a_persistent_send_without_a_data_folder_is_refused() -> None:
    driven = Driven(stored=False)
    producer = driven.producer("queue:q")
    with pytest.raises(CommandError, match="data folder"):
        driven.send(producer, b"1", persistent=True)
    driven.send(producer, b"2")
    assert driven.got(driven.consumer("queue:q")) == [b"2"]
    assert driven.records == []
