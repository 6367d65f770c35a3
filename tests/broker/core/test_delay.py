"""Delivery delay: a message is there, counts, and is kept, but nobody sees it before it is due."""

from mqlab.broker.core.model.messages import FOOTPRINT

from .commands import NOW, Driven
from .payloads import alike, batch, single


def test_a_message_is_seen_when_it_is_due_and_not_before() -> None:
    driven = Driven()
    consumer, producer = driven.consumer("queue:q"), driven.producer("queue:q")
    driven.put(producer, single(b"1", deliver_at=NOW + 100), confirm=True)
    assert (driven.got(consumer), driven.confirmed, driven.next_wake_ms) == ([], [(producer, 1)], NOW + 100)
    driven.tick(99)
    assert driven.got(consumer) == []
    driven.tick(1)
    assert driven.got(consumer) == [b"1"]
    assert driven.next_wake_ms is None


def test_a_time_that_is_over_is_no_delay() -> None:
    driven = Driven()
    driven.put(driven.producer("queue:q"), alike([b"1", b"2"], deliver_at=NOW))
    assert driven.got(driven.consumer("queue:q")) == [b"1", b"2"]


def test_it_counts_from_the_beginning() -> None:
    driven = Driven(queue_limit=100)
    producer = driven.producer("queue:q")
    driven.put(producer, single(b"x" * 100, deliver_at=NOW + 100))
    queue = driven.queue("q")
    assert (queue.messages, queue.full, driven.memory) == (1, True, queue.size + FOOTPRINT)
    assert driven.core.flow.held.keys() == {producer}


def test_others_go_ahead_meanwhile() -> None:
    driven = Driven()
    consumer, producer = driven.consumer("queue:q"), driven.producer("queue:q")
    driven.put(
        producer, batch((b"1", {"deliver_at": NOW + 5}), (b"2", {}), (b"3", {"deliver_at": NOW + 3}), (b"4", {}))
    )
    assert driven.got(consumer) == [b"2", b"4"]
    driven.tick(3)
    assert driven.got(consumer) == [b"2", b"4", b"3"]
    driven.tick(2)
    assert driven.got(consumer) == [b"2", b"4", b"3", b"1"]
    driven.acknowledge(consumer, 4)
    assert (driven.queue("q").messages, driven.memory) == (0, 0)


def test_messages_due_at_the_same_time_keep_their_order() -> None:
    driven = Driven()
    producer = driven.producer("queue:q")
    for number in range(5):
        driven.put(producer, single(b"%d" % number, deliver_at=NOW + 5))
    driven.tick(5)
    assert driven.left("q") == [b"%d" % number for number in range(5)]


def test_one_that_is_due_takes_the_place_it_always_had() -> None:
    driven = Driven()
    producer = driven.producer("queue:q")
    driven.put(producer, batch((b"1", {"deliver_at": NOW + 5}), (b"2", {}), (b"3", {"deliver_at": NOW + 5})))
    driven.send(producer, b"4")
    driven.tick(5)
    assert driven.left("q") == [b"1", b"2", b"3", b"4"]


def test_a_message_can_expire_before_it_is_due() -> None:
    driven = Driven()
    consumer = driven.consumer("queue:q")
    driven.put(driven.producer("queue:q"), single(b"1", deliver_at=NOW + 10, expiration=NOW + 5))
    driven.tick(10)
    assert (driven.got(consumer), driven.queue("q").messages, driven.memory) == ([], 0, 0)
    assert driven.queue("q").counters.expired == 1


def test_a_delayed_message_has_its_priority_when_it_is_due() -> None:
    driven = Driven()
    producer = driven.producer("queue:q")
    driven.put(producer, single(b"1", deliver_at=NOW + 5, priority=1))
    driven.put(producer, single(b"2", deliver_at=NOW + 5, priority=9))
    driven.send(producer, b"3")
    driven.tick(5)
    assert driven.left("q") == [b"2", b"3", b"1"]


def test_who_waits_for_just_that_message_waits_until_it_is_due() -> None:
    driven = Driven()
    consumer = driven.consumer("queue:q", 0)
    driven.put(driven.producer("queue:q"), single(b"1", deliver_at=NOW + 5, correlation_id="a"))
    driven.receive(consumer, "a")
    assert driven.got(consumer) == []
    driven.tick(5)
    assert driven.got(consumer) == [b"1"]


def test_a_browser_does_not_see_it() -> None:
    driven = Driven()
    driven.put(driven.producer("queue:q"), single(b"1", deliver_at=NOW + 5))
    assert driven.got(driven.consumer("queue:q", browse=True)) == []


def test_the_delay_goes_on_after_a_restart() -> None:
    driven = Driven()
    driven.put(driven.producer("queue:q"), batch((b"1", {"deliver_at": NOW + 50}), (b"2", {})), persistent=True)
    driven.sync()
    after = driven.restarted()
    consumer = after.consumer("queue:q")
    assert (after.got(consumer), after.next_wake_ms) == ([b"2"], NOW + 50)
    after.tick(50)
    assert after.got(consumer) == [b"2", b"1"]


def test_a_delayed_message_in_a_transaction() -> None:
    driven = Driven()
    session = driven.session(transacted=True)
    consumer, producer = driven.consumer("queue:q"), driven.producer("queue:q", session)
    driven.put(producer, single(b"1", deliver_at=NOW + 5))
    driven.tick(10)
    driven.commit(session)
    assert driven.got(consumer) == [b"1"]


def test_a_queue_is_deleted_with_what_is_not_due() -> None:
    driven = Driven()
    driven.put(driven.producer("queue:q"), single(b"1", deliver_at=NOW + 5), persistent=True)
    driven.sync()
    driven.do(driven.core.removal.delete, driven.queue("q"))
    assert driven.memory == 0
    driven.tick(5)
    driven.sync()
    assert driven.restarted().core.destinations.queues == {}
