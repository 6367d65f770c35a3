"""Expiry: a message is never delivered late, wherever it is when its time comes, and it leaves by itself."""

import pytest

from mqlab.broker import limits
from mqlab.broker.core.durability.records import Commit, Remove
from mqlab.wire.native.bodies import decode

from .commands import NOW, Driven
from .payloads import Row, alike, batch, single


def test_a_message_can_be_had_until_its_time_and_not_after() -> None:
    for wait, got in ((99, [b"1"]), (100, []), (101, [])):
        driven = Driven()
        driven.put(driven.producer("queue:q"), single(b"1", expiration=NOW + 100))
        driven.tick(wait)
        assert driven.got(driven.consumer("queue:q")) == got


def test_it_leaves_by_itself() -> None:
    driven = Driven()
    driven.put(driven.producer("queue:q"), single(b"1", expiration=NOW + 100))
    assert driven.next_wake_ms == NOW + 100
    driven.tick(100)
    queue = driven.queue("q")
    assert (queue.messages, queue.size, driven.memory, queue.counters.expired) == (0, 0, 0, 1)
    assert driven.next_wake_ms is None


def test_nobody_needs_to_have_been_woken() -> None:
    """The clock may be looked at without a wake: what is late is late."""
    driven = Driven()
    producer = driven.producer("queue:q")
    driven.put(producer, single(b"1", expiration=NOW + 100))
    driven.send(producer, b"2")
    driven.core.context.now_ms = NOW + 100
    assert driven.got(driven.consumer("queue:q")) == [b"2"]
    assert driven.queue("q").counters.expired == 1


def test_a_message_may_be_late_when_it_comes() -> None:
    driven = Driven()
    consumer, producer = driven.consumer("queue:q"), driven.producer("queue:q")
    driven.put(producer, single(b"1", expiration=NOW), confirm=True)
    driven.put(producer, batch((b"2", {"expiration": NOW - 1}), (b"3", {}), (b"4", {"expiration": NOW + 1})))
    assert driven.got(consumer) == [b"3", b"4"]
    assert driven.confirmed == [(producer, 1)]
    driven.acknowledge(consumer, 2)
    assert (driven.queue("q").messages, driven.memory) == (0, 0)


def test_while_the_disk_works_time_goes_by() -> None:
    driven = Driven()
    consumer, producer = driven.consumer("queue:q"), driven.producer("queue:q")
    driven.put(producer, single(b"1", expiration=NOW + 100), persistent=True, confirm=True)
    driven.tick(100)
    driven.sync()
    assert (driven.got(consumer), driven.confirmed) == ([], [(producer, 1)])
    driven.sync()
    assert driven.restarted().left("q") == []


@pytest.mark.parametrize("wait", [10, 20, 30, 40])
def test_each_of_a_batch_has_its_own_time(wait: int) -> None:
    driven = Driven()
    times = [30, 10, 0, 20, 10, 30]
    rows = [(b"%d" % at, {"expiration": NOW + one} if one else {}) for at, one in enumerate(times)]
    driven.put(driven.producer("queue:q"), batch(*rows))
    driven.tick(wait)
    alive = [b"%d" % at for at, one in enumerate(times) if not one or one > wait]
    queue = driven.queue("q")
    assert (driven.left("q"), queue.messages, queue.counters.expired) == (alive, len(alive), 6 - len(alive))
    consumer = driven.consumer("queue:q")
    driven.acknowledge(consumer, len(alive))
    assert (driven.got(consumer), driven.memory) == (alive, 0)


def test_one_wake_after_the_other_empties_a_batch() -> None:
    driven = Driven()
    driven.put(driven.producer("queue:q"), batch(*((b"%d" % n, {"expiration": NOW + n}) for n in (3, 1, 2, 5, 4))))
    left = []
    while driven.next_wake_ms is not None:
        driven.tick(driven.next_wake_ms - driven.core.context.now_ms)
        left.append(driven.left("q"))
    assert left == [[b"3", b"2", b"5", b"4"], [b"3", b"5", b"4"], [b"5", b"4"], [b"5"], []]
    assert driven.memory == 0


def test_what_a_consumer_has_is_its_own_until_it_comes_back() -> None:
    driven = Driven()
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q", 3)
    driven.put(producer, alike([b"1", b"2", b"3", b"4"], expiration=NOW + 100))
    driven.tick(100)
    assert driven.queue("q").messages == 3
    driven.acknowledge(consumer, 1)
    driven.close(consumer)
    other = driven.consumer("queue:q")
    assert (driven.got(other), driven.memory, driven.queue("q").counters.expired) == ([], 0, 3)


def test_what_comes_back_in_time_still_expires() -> None:
    """The parts of one batch, with the same time, are all watched."""
    driven = Driven()
    producer = driven.producer("queue:q")
    consumers = [driven.consumer("queue:q", 2) for _ in range(3)]
    driven.put(producer, alike([b"%d" % n for n in range(8)], expiration=NOW + 100))
    for consumer in consumers:
        driven.close(consumer)
    assert driven.left("q") == [b"%d" % n for n in range(8)]
    driven.tick(99)
    assert driven.left("q") == [b"%d" % n for n in range(8)]
    driven.tick(1)
    assert (driven.left("q"), driven.memory) == ([], 0)


def test_expired_messages_can_be_kept_elsewhere() -> None:
    driven = Driven(expired="queue:late")
    producer = driven.producer("queue:q")
    driven.put(producer, batch((b"1", {"expiration": NOW + 9}), (b"2", {}), (b"3", {"expiration": NOW + 9})))
    driven.tick(9)
    assert (driven.left("q"), driven.left("late")) == ([b"2"], [b"1", b"3"])
    assert [span.origin for span in driven.queue("late").spans()] == ["queue:q"]
    driven.tick(1000)
    assert driven.left("late") == [b"1", b"3"]


def test_they_are_moved_in_one_step() -> None:
    driven = Driven(expired="queue:late")
    driven.put(driven.producer("queue:q"), single(b"1", expiration=NOW + 9), persistent=True)
    driven.sync()
    driven.tick(9)
    moved = driven.records[-1]
    assert isinstance(moved, Commit)
    assert [decode(put.payload).tolist() for put in moved.puts] == [[b"1"]]
    assert moved.removes == (Remove(1, ((1, 1),)),)
    assert (driven.left("q"), driven.left("late")) == ([], [])
    driven.sync()
    assert driven.left("late") == [b"1"]
    after = driven.restarted()
    after.tick(1)
    assert (after.left("q"), after.left("late")) == ([], [b"1"])


def test_there_is_no_way_round_in_the_queue_of_the_expired() -> None:
    driven = Driven(expired="queue:late")
    driven.put(driven.producer("queue:late"), single(b"1", expiration=NOW + 9))
    driven.tick(9)
    assert (driven.left("late"), driven.memory) == ([], 0)


def test_the_journal_is_told_what_expired() -> None:
    driven = Driven()
    driven.put(
        driven.producer("queue:q"), batch((b"1", {}), (b"2", {"expiration": NOW + 9}), (b"3", {})), persistent=True
    )
    driven.sync()
    driven.tick(9)
    assert driven.records[-1] == Remove(1, ((2, 1),))


def test_a_message_expires_after_a_restart_too() -> None:
    driven = Driven()
    driven.put(driven.producer("queue:q"), alike([b"1", b"2"], expiration=NOW + 9), persistent=True)
    driven.sync()
    after = driven.restarted()
    assert after.left("q") == [b"1", b"2"]
    after.tick(9)
    assert after.left("q") == []


def test_who_waits_for_one_message_does_not_get_it_late() -> None:
    driven = Driven()
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q", 0)
    driven.receive(consumer, "a")
    driven.put(producer, single(b"late", correlation_id="a", expiration=NOW))
    assert (driven.got(consumer), driven.queue("q").messages) == ([], 0)
    driven.put(producer, single(b"in time", correlation_id="a", expiration=NOW + 1))
    assert driven.got(consumer) == [b"in time"]


@pytest.mark.parametrize("retrieval", ["indexed", "scan"])
def test_one_message_of_a_batch_is_found_though_others_are_late(retrieval: str) -> None:
    driven = Driven(retrieval=retrieval)
    rows: list[Row] = [
        (name.encode(), {"correlation_id": name, "expiration": NOW + late})
        for name, late in zip("abc", (5, 9, 5), strict=True)
    ]
    driven.put(driven.producer("queue:q"), batch(*rows))
    driven.core.context.now_ms = NOW + 5
    consumer = driven.consumer("queue:q", 0)
    driven.receive(consumer, "b")
    driven.receive(consumer, "a")
    assert driven.got(consumer) == [b"b"]
    assert driven.queue("q").counters.expired == 2


def test_a_subscriber_that_is_away_misses_what_expires() -> None:
    driven = Driven()
    session = driven.session(client="me")
    driven.close(driven.consumer("topic:t", session=session, durable="d"))
    driven.put(driven.producer("topic:t"), batch((b"1", {"expiration": NOW + 9}), (b"2", {})), persistent=True)
    driven.sync()
    driven.tick(9)
    assert driven.got(driven.consumer("topic:t", session=session, durable="d")) == [b"2"]


def test_what_is_consumed_in_time_is_not_kept_in_mind() -> None:
    """A broker that passes millions of messages with an expiry of a day must not remember each of them for a day."""
    driven = Driven()
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q", 10_000)
    for number in range(5000):
        driven.put(producer, single(b"x", expiration=NOW + 86_400_000 + number % 7))
        driven.acknowledge(consumer, number + 1)
    queue = driven.queue("q")
    assert len(queue._expiring) < 200
    assert len(driven.core.wake_times) < 100


def test_very_many_expire_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them is delivered, however many are still to be removed."""
    monkeypatch.setattr(limits, "SLICE", 16)
    driven = Driven()
    for name in ("queue:q", "queue:r"):
        producer = driven.producer(name)
        for _ in range(50):
            driven.put(producer, single(b"late", expiration=NOW + 5))
        driven.put(producer, single(b"good"))
    driven.tick(5)
    assert 101 - 16 - 2 <= driven.queue("q").messages + driven.queue("r").messages < 102
    assert driven.next_wake_ms is not None
    assert driven.next_wake_ms <= NOW + 5
    consumer = driven.consumer("queue:q")
    driven.go_on()
    assert driven.got(consumer) == [b"good"]
    for _ in range(20):
        driven.tick(0)
    assert (driven.queue("q").messages, driven.queue("r").messages) == (1, 1)
    assert driven.queue("q").counters.expired == driven.queue("r").counters.expired == 50
