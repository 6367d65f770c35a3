"""Acknowledgement: up to a delivery, or of single ones in any order; alone or in a transaction, as one record."""

from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.broker.core.durability.records import Commit, Remove
from mqlab.broker.core.model.sessions import CoreConsumer

from .commands import Driven, held_messages
from .payloads import single


def holding(driven: Driven, *, batches: tuple[int, ...] = (4, 1, 3), transacted: bool = False) -> CoreConsumer:
    """A consumer that has messages 0, 1, ... of batches of these sizes."""
    consumer = driven.consumer("queue:q", session=driven.session(transacted=transacted))
    producer, sent = driven.producer("queue:q"), 0
    for size in batches:
        driven.send(producer, *(b"%d" % n for n in range(sent, sent + size)), persistent=True)
        sent += size
    driven.sync()
    driven.records.clear()
    return consumer


def come_back(driven: Driven, consumer: CoreConsumer) -> list[bytes]:
    driven.close(consumer)
    return driven.left("q")


def test_up_to_a_delivery() -> None:
    for up_to in range(9):
        driven = Driven()
        consumer = holding(driven)
        driven.acknowledge(consumer, up_to)
        assert driven.queue("q").messages == held_messages(consumer) == 8 - up_to
        assert come_back(driven, consumer) == [b"%d" % n for n in range(up_to, 8)]


def test_twice_is_once() -> None:
    driven = Driven()
    consumer = holding(driven)
    driven.acknowledge(consumer, 5)
    driven.acknowledge(consumer, 3)
    driven.acknowledge(consumer, 5)
    driven.acknowledge_rows(consumer, 2)
    assert driven.said(Remove) == [Remove(1, ((1, 4), (5, 1)))]
    assert driven.queue("q").messages == 3


def test_single_ones_in_any_order_leave_holes() -> None:
    driven = Driven()
    consumer = holding(driven)
    for delivery in (3, 8, 1, 5):
        driven.acknowledge_rows(consumer, delivery)
    assert driven.said(Remove) == [Remove(1, ((one, 1),)) for one in (3, 8, 1, 5)]
    assert come_back(driven, consumer) == [b"1", b"3", b"5", b"6"]


def test_a_range_over_holes_and_batches() -> None:
    driven = Driven()
    consumer = holding(driven)
    driven.acknowledge_rows(consumer, 3)
    driven.acknowledge_rows(consumer, 2, 5)
    assert driven.queue("q").messages == 3
    assert come_back(driven, consumer) == [b"0", b"6", b"7"]


def test_up_to_a_delivery_after_single_ones() -> None:
    driven = Driven()
    consumer = holding(driven)
    driven.acknowledge_rows(consumer, 2)
    driven.acknowledge_rows(consumer, 6)
    driven.acknowledge(consumer, 7)
    assert come_back(driven, consumer) == [b"7"]


@pytest.mark.parametrize(("first", "rows"), [(0, 1), (9, 5), (100, 1), (1, 0)])
def test_what_was_never_delivered_cannot_be_acknowledged(first: int, rows: int) -> None:
    driven = Driven()
    consumer = holding(driven)
    driven.acknowledge_rows(consumer, first, rows)
    assert (driven.queue("q").messages, held_messages(consumer), driven.records) == (8, 8, [])


def test_more_than_was_delivered_is_all_of_it() -> None:
    driven = Driven()
    consumer = holding(driven)
    driven.acknowledge_rows(consumer, 7, 100)
    driven.acknowledge(consumer, 100)
    assert (driven.queue("q").messages, driven.memory) == (0, 0)


def test_single_ones_give_no_room() -> None:
    driven = Driven()
    consumer = driven.consumer("queue:q", 1)
    driven.send(driven.producer("queue:q"), b"1", b"2")
    driven.acknowledge_rows(consumer, 1)
    assert driven.got(consumer) == [b"1"]
    driven.acknowledge(consumer, 0, 1)
    assert driven.got(consumer) == [b"1", b"2"]


def test_single_ones_in_a_transaction_come_back_with_a_rollback() -> None:
    driven = Driven()
    consumer = holding(driven, transacted=True)
    for delivery in (7, 2, 3):
        driven.acknowledge_rows(consumer, delivery)
    assert driven.records == []
    driven.rollback(consumer.session)
    driven.forget(consumer)
    driven.acknowledge(consumer, 0, 100)
    assert driven.delivered[consumer] == [(b"%d" % n, n in (1, 2, 6)) for n in range(8)]


def test_a_commit_says_in_one_record_what_was_taken_from_where() -> None:
    driven = Driven()
    session = driven.session(transacted=True)
    for name in ("a", "b"):
        driven.send(driven.producer(f"queue:{name}"), b"1", b"2", b"3", persistent=True)
    driven.send(driven.producer("queue:a"), b"not kept")
    driven.sync()
    one, two = driven.consumer("queue:a", session=session), driven.consumer("queue:b", session=session)
    driven.acknowledge_rows(one, 3)
    driven.acknowledge(two, 2)
    driven.acknowledge(one, 1)
    driven.acknowledge_rows(one, 4)
    out = driven.producer("queue:c", session)
    driven.send(out, b"out", persistent=True)
    driven.records.clear()
    driven.commit(session)
    (said,) = driven.records
    assert isinstance(said, Commit)
    assert said.removes == (Remove(1, ((3, 1), (1, 1))), Remove(2, ((1, 2),)))
    assert [put.targets for put in said.puts] == [((3, 1),)]
    driven.sync()
    assert [driven.queue(name).messages for name in "abc"] == [1, 1, 1]


def test_the_oldest_first_is_cheap() -> None:
    """What is acknowledged one by one, in order, is not searched for among all that is in hand."""
    driven = Driven()
    consumer, producer = driven.consumer("queue:q", 3000), driven.producer("queue:q")
    for number in range(3000):
        driven.send(producer, b"%d" % number)
    held = consumer.unacknowledged
    for number in range(3000):
        driven.acknowledge_rows(consumer, number + 1)
    assert consumer.unacknowledged is held
    assert (driven.queue("q").messages, driven.memory) == (0, 0)


def test_messages_of_several_priorities_keep_their_delivery_ids() -> None:
    driven = Driven()
    producer = driven.producer("queue:q")
    for number in range(6):
        driven.put(producer, single(b"%d" % number, priority=number))
    consumer = driven.consumer("queue:q")
    assert driven.got(consumer) == [b"5", b"4", b"3", b"2", b"1", b"0"]
    driven.acknowledge_rows(consumer, 2, 3)
    assert come_back(driven, consumer) == [b"5", b"1", b"0"]


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=5), st.booleans(),
    st.lists(st.tuples(st.booleans(), st.integers(0, 26), st.integers(0, 6)), max_size=12),
)  # fmt: skip
def test_any_acknowledgements_cover_what_they_say(
    batches: list[int], transacted: bool, steps: list[tuple[bool, int, int]]
) -> None:
    driven = Driven()
    consumer = holding(driven, batches=tuple(batches), transacted=transacted)
    left = {*range(1, sum(batches) + 1)}
    for by_rows, first, rows in steps:
        if by_rows:
            driven.acknowledge_rows(consumer, first, rows)
            left -= {*range(first, first + rows)}
        else:
            driven.acknowledge(consumer, first)
            left -= {*range(first + 1)}
        assert held_messages(consumer) == len(left)
    if transacted:
        driven.commit(consumer.session)
        driven.sync()
    removes = [remove for record in driven.records for remove in getattr(record, "removes", (record,))]
    gone = [ids for remove in removes for ids in cast(Remove, remove).ranges]
    ids = [id_ for first, rows in gone for id_ in range(first, first + rows)]
    assert sorted(ids) == sorted({*range(1, sum(batches) + 1)} - left)
    assert come_back(driven, consumer) == [b"%d" % (one - 1) for one in sorted(left)]
    spans = [*driven.queue("q").spans()]
    assert driven.queue("q").size == sum(span.size for span in spans)
    assert driven.queue("q").in_memory == driven.memory == sum(span.memory for span in spans)
