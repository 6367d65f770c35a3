"""Temporary queues: for one connection to receive from, gone with it, and never on disk."""

import pytest

from mqlab.broker.core.errors import CommandError

from .commands import Driven


def test_only_its_own_connection_receives_from_it() -> None:
    driven = Driven()
    mine, other = object(), object()
    queue = driven.core.destinations.temporary_queue(mine)
    consumer = driven.consumer(queue.full_name, session=driven.session(owner=mine))
    with pytest.raises(CommandError, match="another connection"):
        driven.consumer(queue.full_name, session=driven.session(owner=other))
    driven.send(driven.producer(queue.full_name, driven.session(owner=other)), b"1")
    assert driven.got(consumer) == [b"1"]


def test_each_has_its_own_name() -> None:
    driven = Driven()
    assert len({driven.core.destinations.temporary_queue(driven).name for _ in range(10)}) == 10


def test_nothing_of_it_is_kept() -> None:
    driven = Driven()
    queue = driven.core.destinations.temporary_queue(driven)
    producer = driven.producer(queue.full_name)
    driven.send(producer, b"1", persistent=True, confirm=True)
    assert driven.got(driven.consumer(queue.full_name)) == [b"1"]
    assert (driven.confirmed, driven.records) == ([(producer, 1)], [])


def test_it_goes_with_its_connection() -> None:
    driven = Driven()
    mine = object()
    queue = driven.core.destinations.temporary_queue(mine)
    session = driven.session(owner=mine)
    driven.consumer(queue.full_name, 1, session)
    producer = driven.producer(queue.full_name)
    driven.send(producer, b"1", b"2")
    driven.lose(session)
    driven.do(driven.core.close_connection, mine)
    assert (driven.memory, queue.messages, queue.closed) == (0, 0, True)
    assert queue.name not in driven.core.destinations.queues
    with pytest.raises(CommandError, match="gone"):
        driven.send(producer, b"3")
    with pytest.raises(CommandError, match="gone"):
        driven.producer(queue.full_name)
    with pytest.raises(CommandError, match="gone"):
        driven.consumer(queue.full_name)


def test_others_keep_theirs() -> None:
    driven = Driven()
    mine, other = object(), object()
    queues = [driven.core.destinations.temporary_queue(owner) for owner in (mine, other)]
    driven.do(driven.core.close_connection, mine)
    assert [queue.closed for queue in queues] == [True, False]


def test_a_producer_held_by_it_is_not_held_for_ever() -> None:
    driven = Driven(queue_limit=100, producer_window=100)
    queue = driven.core.destinations.temporary_queue(driven)
    producer = driven.producer(queue.full_name)
    driven.send(producer, b"x" * 100)
    assert driven.core.flow.held.keys() == {producer}
    driven.do(driven.core.close_connection, driven)
    assert driven.core.flow.held == {}


def test_a_reply_in_a_transaction_to_one_that_is_gone_goes_nowhere() -> None:
    driven = Driven()
    mine = object()
    queue = driven.core.destinations.temporary_queue(mine)
    session = driven.session(transacted=True)
    driven.send(driven.producer(queue.full_name, session), b"1", persistent=True)
    driven.do(driven.core.close_connection, mine)
    driven.commit(session)
    driven.sync()
    assert (driven.memory, queue.messages, driven.records) == (0, 0, [])


def test_nobody_can_make_one_by_its_name() -> None:
    driven = Driven()
    with pytest.raises(CommandError, match="temporary"):
        driven.producer("queue:temporary.1.1")
