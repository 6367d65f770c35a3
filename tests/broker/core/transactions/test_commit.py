"""Transactions: all of it or nothing, for sends and for acknowledgements."""

from contextlib import suppress

import pytest

from broker.core.commands import Driven
from mqlab.broker import limits
from mqlab.broker.core.effects import Committed, RolledBack
from mqlab.broker.core.errors import CommandError


def test_nothing_of_an_open_transaction_is_visible() -> None:
    driven = Driven()
    session = driven.session(transacted=True)
    producer, consumer = driven.producer("queue:q", session), driven.consumer("queue:q")
    driven.send(producer, b"1")
    driven.send(producer, b"2")
    assert driven.got(consumer) == []
    driven.commit(session)
    assert driven.got(consumer) == [b"1", b"2"]
    assert driven.answers == [(Committed, session)]


def test_a_persistent_commit_is_answered_and_visible_when_it_is_durable() -> None:
    driven = Driven()
    session = driven.session(transacted=True)
    producer, consumer = driven.producer("queue:q", session), driven.consumer("queue:q")
    driven.send(producer, b"1")
    driven.send(producer, b"2", persistent=True)
    driven.commit(session)
    assert (driven.got(consumer), driven.answers) == ([], [])
    driven.sync()
    assert (driven.got(consumer), driven.answers) == ([b"1", b"2"], [(Committed, session)])


def test_rolled_back_sends_never_happened() -> None:
    driven = Driven()
    session = driven.session(transacted=True)
    producer, consumer = driven.producer("queue:q", session), driven.consumer("queue:q")
    driven.send(producer, b"1", persistent=True)
    driven.rollback(session)
    driven.send(producer, b"2", persistent=True)
    driven.commit(session)
    driven.sync()
    assert driven.got(consumer) == [b"2"]
    assert driven.answers == [(RolledBack, session), (Committed, session)]


def test_rolled_back_receipts_come_again_marked_and_in_order() -> None:
    driven = Driven()
    session = driven.session(transacted=True)
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q", 4, session)
    driven.send(producer, *(b"%d" % n for n in range(6)))
    driven.acknowledge(consumer, 3)
    driven.rollback(session)
    driven.forget(consumer)
    driven.acknowledge(consumer, 0, credit=100)
    assert driven.got(consumer) == [b"%d" % n for n in range(6)]
    assert all(mark for _, mark in driven.delivered[consumer][:3])
    assert not any(mark for _, mark in driven.delivered[consumer][4:])


def test_a_rollback_leaves_no_room_until_the_client_gives_some() -> None:
    """The client forgets what it has in hand; what came before it said so would be lost."""
    driven = Driven()
    session = driven.session(transacted=True)
    consumer = driven.consumer("queue:q", 100, session)
    driven.rollback(session)
    driven.send(driven.producer("queue:q"), b"1")
    assert driven.got(consumer) == []


def test_a_lost_session_rolls_back_in_order() -> None:
    """What it had acknowledged comes before what it had only received, also for a consumer that waits already."""
    driven = Driven()
    session = driven.session(transacted=True)
    consumer = driven.consumer("queue:q", session=session)
    driven.send(driven.producer("queue:q"), *(b"%d" % n for n in range(6)))
    driven.acknowledge(consumer, 3)
    other = driven.consumer("queue:q")
    driven.lose(session)
    assert driven.delivered[other] == [(b"%d" % n, True) for n in range(6)]


def test_a_lost_session_gives_nothing_to_its_own_other_consumer() -> None:
    driven = Driven()
    session = driven.session()
    one, two = driven.consumer("queue:q", 2, session), driven.consumer("queue:q", 0, session)
    driven.send(driven.producer("queue:q"), b"1", b"2")
    driven.core.acknowledge(two, 0, 9)
    driven.lose(session)
    assert (driven.got(one), driven.got(two)) == ([b"1", b"2"], [])


def test_acknowledged_messages_are_gone_with_the_commit_only() -> None:
    driven = Driven()
    session = driven.session(transacted=True)
    consumer = driven.consumer("queue:q", session=session)
    driven.send(driven.producer("queue:q"), b"1", b"2")
    driven.acknowledge(consumer, 2)
    assert driven.queue("q").messages == 2
    driven.commit(session)
    assert (driven.queue("q").messages, driven.memory) == (0, 0)


def test_a_commit_does_not_overtake_an_earlier_one() -> None:
    driven = Driven()
    session = driven.session(transacted=True)
    producer, consumer = driven.producer("queue:q", session), driven.consumer("queue:q")
    driven.send(producer, b"1", persistent=True)
    driven.commit(session)
    driven.send(producer, b"2")
    driven.commit(session)
    assert driven.got(consumer) == []
    driven.sync()
    assert driven.got(consumer) == [b"1", b"2"]


@pytest.mark.parametrize(("size", "fits"), [(-1, True), (0, True), (1, False)])
def test_a_transaction_is_bounded(size: int, fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TRANSACTION", 1000)
    driven = Driven()
    session = driven.session(transacted=True)
    producer = driven.producer("queue:q", session)
    driven.send(producer, b"x" * 500)
    last = b"x" * (500 + size)
    if fits:
        driven.send(producer, last)
    else:
        with pytest.raises(CommandError, match="1000 bytes"):
            driven.send(producer, last)


@pytest.mark.parametrize("stored", [True, False])
def test_a_transaction_with_something_refused_can_only_be_rolled_back(
    stored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a transaction would be worse than none."""
    monkeypatch.setattr(limits, "TRANSACTION", 100)
    driven = Driven(stored=stored)
    session = driven.session(transacted=True)
    producer, consumer = driven.producer("queue:q", session), driven.consumer("queue:q")
    driven.send(producer, b"1")
    with pytest.raises(CommandError):
        driven.send(producer, b"x" * 200, persistent=not stored)
    with suppress(CommandError):  # it may say so again, and need not
        driven.send(producer, b"3")
    with pytest.raises(CommandError, match="rolled back"):
        driven.core.commit(session)
    driven.rollback(session)
    assert driven.got(consumer) == []
    driven.send(producer, b"4")
    driven.commit(session)
    assert driven.got(consumer) == [b"4"]
