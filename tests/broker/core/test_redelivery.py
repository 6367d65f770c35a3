"""The redelivered mark and count: set for what an application may have seen, and for nothing else."""

import pytest

from mqlab.broker import limits
from mqlab.broker.core.durability.checkpoint import all_spans
from mqlab.broker.core.effects import Requeued, RolledBack
from mqlab.broker.core.model.sessions import CoreConsumer

from .commands import Driven
from .payloads import bodies_of


def with_messages(driven: Driven, credit: int = 6, messages: int = 6, *, transacted: bool = False) -> CoreConsumer:
    consumer = driven.consumer("queue:q", credit, driven.session(transacted=transacted))
    driven.send(driven.producer("queue:q"), *(b"%d" % n for n in range(messages)))
    return consumer


def again(driven: Driven) -> list[tuple[bytes, int]]:
    """All that is there, with the count."""
    consumer = driven.consumer("queue:q")
    return [*zip(driven.got(consumer), driven.times.get(consumer, []), strict=True)]


def test_a_closed_consumer_marks_what_its_application_saw() -> None:
    for seen in range(7):
        driven = Driven()
        driven.close(with_messages(driven), seen)
        assert again(driven) == [(b"%d" % n, int(n < seen)) for n in range(6)]


def test_what_was_acknowledged_counts_for_what_was_seen() -> None:
    driven = Driven()
    consumer = with_messages(driven)
    driven.acknowledge(consumer, 2)
    driven.close(consumer, 3)
    assert again(driven) == [(b"2", 1), (b"3", 0), (b"4", 0), (b"5", 0)]


def test_holes_of_single_acknowledgements_do_not_shift_the_mark() -> None:
    driven = Driven()
    consumer = with_messages(driven)
    driven.acknowledge_rows(consumer, 2)
    driven.acknowledge_rows(consumer, 4)
    driven.close(consumer, 5)
    assert again(driven) == [(b"0", 1), (b"2", 1), (b"4", 1), (b"5", 0)]


def test_a_lost_connection_marks_all_that_was_on_its_way() -> None:
    driven = Driven()
    driven.lose(with_messages(driven, 4).session)
    assert again(driven) == [(b"%d" % n, int(n < 4)) for n in range(6)]


def test_taken_back_is_marked_up_to_what_was_seen() -> None:
    """As a session's recover does it."""
    driven = Driven()
    consumer = with_messages(driven)
    driven.do(driven.core.requeue_all, consumer, 2)
    assert driven.answers == [(Requeued, consumer)]
    driven.forget(consumer)
    driven.acknowledge(consumer, 0, 10)
    assert driven.delivered[consumer] == [(b"%d" % n, n < 2) for n in range(6)]
    assert driven.times[consumer] == [1, 1, 0, 0, 0, 0]


def test_taken_back_leaves_no_room_until_there_is_said_to_be_some() -> None:
    driven = Driven()
    consumer = with_messages(driven, 100)
    driven.do(driven.core.requeue_all, consumer, 0)
    driven.send(driven.producer("queue:q"), b"6")
    assert len(driven.got(consumer)) == 6
    driven.acknowledge(consumer, 0, 100)
    assert driven.got(consumer)[6:] == [b"%d" % n for n in range(7)]


def test_what_is_taken_back_may_go_to_another() -> None:
    driven = Driven()
    one = with_messages(driven)
    two = driven.consumer("queue:q")
    driven.do(driven.core.requeue_all, one, 6)
    assert driven.delivered[two] == [(b"%d" % n, True) for n in range(6)]


def test_a_rollback_marks_what_was_acknowledged_in_it() -> None:
    driven = Driven()
    consumer = with_messages(driven, transacted=True)
    driven.acknowledge(consumer, 2)
    driven.rollback(consumer.session)
    assert driven.answers == [(RolledBack, consumer.session)]
    driven.forget(consumer)
    driven.acknowledge(consumer, 0, 10)
    assert driven.times[consumer] == [1, 1, 0, 0, 0, 0]


def test_each_delivery_in_vain_is_counted() -> None:
    driven = Driven()
    consumer = with_messages(driven, 1, 2)
    for times in range(5):
        driven.close(consumer)
        consumer = driven.consumer("queue:q", 1)
        assert (driven.got(consumer), driven.times[consumer]) == ([b"0"], [times + 1])
    driven.acknowledge(consumer, 1, 1)
    assert driven.times[consumer] == [5, 0]
    assert driven.queue("q").counters.redelivered == 5


def test_the_count_of_neighbours_is_their_own() -> None:
    driven = Driven()
    driven.close(with_messages(driven, 4), 4)
    driven.close(driven.consumer("queue:q", 2))
    driven.close(driven.consumer("queue:q", 1))
    assert again(driven) == [(b"0", 3), (b"1", 2), (b"2", 1), (b"3", 1), (b"4", 0), (b"5", 0)]


def test_after_a_restart_everything_may_have_been_seen() -> None:
    driven = Driven()
    driven.send(driven.producer("queue:q"), b"1", b"2", persistent=True)
    driven.sync()
    after = driven.restarted()
    assert again(after) == [(b"1", 1), (b"2", 1)]


def test_what_two_consumers_give_back_is_in_the_one_order() -> None:
    """Also where a message between them became visible late, because it is persistent."""
    driven = Driven()
    persistent, plain = driven.producer("queue:q"), driven.producer("queue:q")
    one = driven.consumer("queue:q", 1)
    driven.send(persistent, b"persistent", persistent=True)
    driven.send(plain, b"0")
    driven.send(plain, b"1")
    driven.sync()
    assert driven.got(one) == [b"0"]
    driven.close(one)
    got = driven.got(driven.consumer("queue:q"))
    assert [body for body in got if body != b"persistent"] == [b"0", b"1"]


def test_very_many_messages_come_back_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is given any of them before all are back, or a checkpoint forgets those that are not back yet."""
    monkeypatch.setattr(limits, "SLICE", 16)
    driven = Driven()
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q")
    for number in range(100):
        driven.send(producer, b"%d" % number)
    driven.close(consumer, 0)
    other = driven.consumer("queue:q")
    driven.send(producer, b"100")
    assert driven.got(other) == []
    assert sorted(bodies_of(all_spans(driven.queue("q")))) == sorted(b"%d" % number for number in range(101))
    assert driven.go_on() >= 100 // 16
    assert driven.got(other) == [b"%d" % number for number in range(101)]


def test_a_queue_to_which_messages_come_back_can_be_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SLICE", 2)
    driven = Driven()
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q")
    for number in range(10):
        driven.send(producer, b"%d" % number)
    driven.go_on()
    driven.close(consumer, 0)
    driven.core.removal.delete(driven.queue("q"))
    driven.take()
    driven.go_on()
    assert driven.memory == 0


def test_very_many_messages_come_back() -> None:
    driven = Driven()
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q", 2000)
    for number in range(2001):
        driven.send(producer, b"%d" % number)
    driven.close(consumer, 0)
    driven.go_on()
    assert driven.left("q") == [b"%d" % number for number in range(2001)]
