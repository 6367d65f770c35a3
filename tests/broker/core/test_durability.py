"""Persistent messages: nothing is shown or confirmed before the journal has it, and nothing overtakes them."""

from mqlab.broker.core.durability.records import Commit, Declare, Put, Remove
from mqlab.broker.core.effects import Committed, Finished
from mqlab.broker.core.model.messages import FOOTPRINT, Span
from mqlab.broker.core.model.sessions import CoreProducer
from mqlab.wire.native.bodies import decode

from .commands import Driven


def test_a_persistent_message_is_neither_seen_nor_confirmed_before_it_is_durable() -> None:
    driven = Driven()
    consumer, producer = driven.consumer("queue:q"), driven.producer("queue:q")
    driven.send(producer, b"1", persistent=True, confirm=True)
    assert (driven.got(consumer), driven.confirmed) == ([], [])
    driven.core.on_durable(driven.core.records.lsn - 1)
    driven.take()
    assert (driven.got(consumer), driven.confirmed) == ([], [])
    driven.sync()
    assert (driven.got(consumer), driven.confirmed) == ([b"1"], [(producer, 1)])


def test_who_waits_for_it_is_told_before_it_goes_to_anybody() -> None:
    driven = Driven()
    consumer, producer, other = driven.consumer("queue:q"), driven.producer("queue:q"), driven.producer("queue:q")
    for number, one in enumerate((producer, other, producer), 1):
        driven.send(one, b"%d" % number, persistent=True, confirm=True, seq=number)
    told: list[list[tuple[CoreProducer, int]]] = []

    def tell() -> None:
        driven.take()
        assert driven.got(consumer) == []
        told.append(driven.confirmed[:])

    driven.core.on_durable(driven.core.records.lsn, tell)
    driven.take()
    assert told == [[(producer, 1), (other, 2), (producer, 3)]]
    assert driven.got(consumer) == [b"1", b"2", b"3"]


def test_who_sends_again_as_soon_as_it_is_told_is_told_of_that_send_too() -> None:
    """As a client in the broker's process does: its send comes while the record of the first one is completed."""
    driven = Driven()
    consumer, producer = driven.consumer("queue:q"), driven.producer("queue:q")
    driven.send(producer, b"1", persistent=True, confirm=True, seq=1)
    again = iter([2])

    def tell() -> None:
        driven.take()
        for seq in again:
            driven.send(producer, b"%d" % seq, confirm=True, seq=seq)

    driven.core.on_durable(driven.core.records.lsn, tell)
    driven.take()
    assert driven.confirmed == [(producer, 1), (producer, 2)]
    assert driven.got(consumer) == [b"1", b"2"]


def test_a_message_that_is_not_persistent_does_not_overtake_one_that_is() -> None:
    driven = Driven()
    consumer, producer, other = driven.consumer("queue:q"), driven.producer("queue:q"), driven.producer("queue:q")
    driven.send(producer, b"1", persistent=True)
    driven.send(producer, b"2", confirm=True, seq=2)
    driven.send(other, b"another's")
    assert driven.got(consumer) == [b"another's"]
    assert driven.confirmed == []
    driven.sync()
    assert driven.got(consumer) == [b"another's", b"1", b"2"]
    assert driven.confirmed == [(producer, 2)]


def test_what_waits_for_the_disk_waits_for_its_own_record_only() -> None:
    """A later record that nobody waits for may not be synced for hours."""
    driven = Driven()
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:done")
    driven.send(driven.producer("queue:done"), b"0", persistent=True)
    driven.sync()
    driven.send(producer, b"1", persistent=True)
    own = driven.core.records.lsn
    driven.acknowledge(consumer, 1)
    assert driven.core.records.lsn == own + 1
    driven.send(producer, b"2", confirm=True, seq=2)
    driven.do(driven.core.finish_producer, producer)
    driven.do(driven.core.on_durable, own)
    assert driven.confirmed == [(producer, 2)]
    assert driven.answers == [(Finished, producer)]
    assert driven.got(driven.consumer("queue:q")) == [b"1", b"2"]


def test_a_commit_waits_for_its_own_record_only() -> None:
    driven = Driven()
    session = driven.session(transacted=True)
    producer = driven.producer("queue:q", session)
    driven.send(producer, b"1", persistent=True)
    driven.commit(session)
    own = driven.core.records.lsn
    driven.producer("queue:another")
    driven.send(producer, b"2")
    driven.commit(session)
    assert driven.answers == []
    driven.do(driven.core.on_durable, own)
    assert driven.answers == [(Committed, session)] * 2
    assert driven.got(driven.consumer("queue:q")) == [b"1", b"2"]


def test_a_closing_producer_is_finished_when_all_it_sent_is_durable() -> None:
    driven = Driven()
    producer = driven.producer("queue:q")
    driven.send(producer, b"1", persistent=True)
    driven.do(driven.core.finish_producer, producer)
    assert driven.answers == []
    driven.sync()
    assert driven.answers == [(Finished, producer)]


def test_the_journal_learns_what_is_needed_and_no_more() -> None:
    driven = Driven()
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q")
    driven.send(producer, b"not kept")
    driven.send(producer, b"1", b"2", b"3", persistent=True)
    driven.sync()
    driven.acknowledge(consumer, 1)
    driven.acknowledge(consumer, 3)
    declared, put, removed = driven.records
    assert declared == Declare(1, "q", 1)
    assert isinstance(put, Put)
    assert (put.targets, decode(put.payload).tolist()) == (((1, 2),), [b"1", b"2", b"3"])
    assert removed == Remove(1, ((2, 2),))


def test_a_transaction_is_one_record() -> None:
    driven = Driven()
    session = driven.session(transacted=True)
    driven.send(driven.producer("queue:in"), b"in", persistent=True)
    driven.sync()
    driven.records.clear()
    consumer = driven.consumer("queue:in", session=session)
    producer = driven.producer("queue:out", session)
    driven.acknowledge(consumer, 1)
    driven.send(producer, b"1", persistent=True)
    driven.send(producer, b"2", persistent=True)
    driven.commit(session)
    declare, commit = driven.records
    assert isinstance(declare, Declare)
    assert isinstance(commit, Commit)
    assert [decode(put.payload).tolist() for put in commit.puts] == [[b"1"], [b"2"]]
    assert commit.removes == (Remove(1, ((1, 1),)),)


def test_a_restored_queue_goes_on_where_it_was() -> None:
    before = Driven()
    producer = before.producer("queue:q")
    before.send(producer, b"1", b"2", persistent=True)
    (put,) = [record for record in before.records if isinstance(record, Put)]
    after = Driven()
    after.core.destinations.restore_queue("q", 7, 3, [Span(put.payload, put.targets[0][1], persistent=True)], {})
    after.core.destinations.last_number = 7
    assert after.queue("q").size == len(put.payload.data)
    assert after.memory == after.queue("q").in_memory == len(put.payload.data) + FOOTPRINT
    consumer = after.consumer("queue:q")
    assert after.delivered[consumer] == [(b"1", True), (b"2", True)]
    after.send(after.producer("queue:q"), b"3", persistent=True)
    [*_, record] = after.records
    assert isinstance(record, Put)
    assert record.targets == ((7, 3),)
    after.producer("queue:another")
    assert after.records[-1] == Declare(8, "another", 1)
