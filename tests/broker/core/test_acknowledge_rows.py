"""Acknowledgements in another session's transaction, and returned deliveries."""

import random

import pytest

from mqlab.broker.core.effects import Committed, RolledBack

from .commands import Driven, held_messages


def test_deliveries_of_one_session_are_done_with_the_commit_of_another() -> None:
    driven = Driven()
    transaction = driven.session(transacted=True)
    producer, consumer = driven.producer("queue:in"), driven.consumer("queue:in")
    replies = driven.producer("queue:out", transaction)
    driven.send(producer, b"1", b"2", b"3")
    driven.core.acknowledge_rows(consumer, 2, 1, transaction)
    driven.send(replies, b"reply")
    assert driven.core.destinations.queues["in"].messages == 3
    driven.commit(transaction)
    assert driven.answers == [(Committed, transaction)]
    assert driven.core.destinations.queues["in"].messages == 2
    driven.core.close_session(consumer.session)
    assert driven.got(driven.consumer("queue:in")) == [b"1", b"3"]


def test_what_is_rolled_back_there_goes_to_the_queue_marked() -> None:
    driven = Driven()
    transaction = driven.session(transacted=True)
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q", 2)
    driven.send(producer, b"1", b"2")
    driven.core.acknowledge_rows(consumer, 1, 1, transaction)
    driven.rollback(transaction)
    assert driven.answers == [(RolledBack, transaction)]
    # The other one is still with its consumer.
    other = driven.consumer("queue:q")
    assert driven.got(other) == [b"1"]
    assert [span.delivered for _, span in other.unacknowledged] == [1]


def test_a_persistent_message_and_its_acknowledgement_are_one_record() -> None:
    driven = Driven()
    transaction = driven.session(transacted=True)
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q")
    driven.send(producer, b"1", persistent=True)
    driven.sync()
    before = driven.core.records.lsn
    driven.core.acknowledge_rows(consumer, 1, 1, transaction)
    driven.send(driven.producer("queue:q", transaction), b"2", persistent=True)
    driven.commit(transaction)
    assert driven.core.records.lsn == before + 1


def test_what_was_tried_in_vain_is_marked_and_what_was_not_is_not() -> None:
    for tried in (False, True):
        driven = Driven()
        producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q", 3)
        driven.send(producer, b"1", b"2", b"3")
        driven.core.requeue_rows(consumer, 2, 1, tried=tried)
        other = driven.consumer("queue:q")
        assert driven.got(other) == [b"2"]
        assert [span.delivered for _, span in other.unacknowledged] == [int(tried)]
        assert held_messages(consumer) == 2


@pytest.mark.parametrize("seed", range(6))
def test_any_ranges_in_any_order(seed: int) -> None:
    """Batches and single messages: whatever the ranges cover is taken, and everything else stays."""
    chance, driven = random.Random(seed), Driven()
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q", 10_000)
    sent = 0
    while sent < 300:
        rows = chance.choice((1, 1, 2, 40))
        driven.send(producer, *[b"%d" % (sent + row) for row in range(rows)])
        sent += rows
    left = {*range(1, sent + 1)}
    while left:
        first, rows = chance.randrange(1, sent + 1), chance.choice((1, 2, 7, 30, 100))
        driven.core.acknowledge_rows(consumer, first, rows)
        left -= {*range(first, first + rows)}
        held = [number for begin, span in consumer.unacknowledged for number in range(begin, begin + span.rows)]
        assert held == sorted(left)
    assert driven.core.destinations.queues["q"].messages == 0
