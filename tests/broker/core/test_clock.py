"""The wall clock is set forward or back: it decides what is due, and nothing else depends on it."""

from mqlab.broker.core.admin import delete, describe, move, totals
from mqlab.broker.core.effects import Answer
from mqlab.broker.core.flow import Episode

from .commands import NOW, Driven
from .payloads import single
from .routing.test_remote_queues import linked
from .test_monitoring import SECOND, seen

MINUTES = 600_000


def set_clock(driven: Driven, step_ms: int) -> None:
    """As the server does it: the wall clock shows something else, and no time has passed."""
    driven.core.context.now_ms += step_ms
    if step_ms < 0:
        driven.core.clock_set_back(-step_ms)
    driven.tick(0)


def test_a_delay_does_not_grow_when_the_clock_is_set_back() -> None:
    driven = Driven()
    consumer, producer = driven.consumer("queue:q"), driven.producer("queue:q")
    driven.put(producer, single(b"1", deliver_at=NOW + 5000))
    driven.put(producer, single(b"2", deliver_at=NOW + 5000))
    driven.tick(1000)
    set_clock(driven, -MINUTES)
    # By the clock as it is now.
    driven.put(producer, single(b"3", deliver_at=NOW + 1000 - MINUTES + 2000))
    assert driven.next_wake_ms == NOW + 1000 - MINUTES + 2000
    driven.tick(3999)
    assert driven.got(consumer) == [b"3"]
    driven.tick(1)
    assert driven.got(consumer) == [b"3", b"1", b"2"]


def test_a_delay_ends_when_the_clock_says_so() -> None:
    driven = Driven()
    consumer, producer = driven.consumer("queue:q"), driven.producer("queue:q")
    driven.put(producer, single(b"1", deliver_at=NOW + MINUTES))
    set_clock(driven, MINUTES)
    assert driven.got(consumer) == [b"1"]


def test_what_waits_for_the_disk_or_a_transaction_is_not_delayed_longer() -> None:
    driven = Driven()
    consumer, session = driven.consumer("queue:q"), driven.session(transacted=True)
    two_phases = driven.session(transacted=True)
    driven.put(driven.producer("queue:q"), single(b"disk", deliver_at=NOW + 5000), persistent=True)
    driven.put(driven.producer("queue:q", session), single(b"transaction", deliver_at=NOW + 5000))
    driven.put(driven.producer("queue:q", two_phases), single(b"prepared", deliver_at=NOW + 5000))
    driven.do(driven.core.prepare, two_phases, "xid", Answer(driven, 1, {}))
    set_clock(driven, -MINUTES)
    driven.put(driven.producer("queue:q", session), single(b"later", deliver_at=NOW - MINUTES + 6000))
    driven.commit(session)
    driven.do(driven.core.decide, "xid", Answer(driven, 2, {}), commit=True)
    driven.sync()
    driven.tick(4999)
    assert driven.got(consumer) == []
    driven.tick(1)
    assert sorted(driven.got(consumer)) == [b"disk", b"prepared", b"transaction"]
    driven.tick(1000)
    assert driven.got(consumer)[3:] == [b"later"]


def test_what_was_due_stays_so_on_another_queue() -> None:
    driven = Driven()
    producer = driven.producer("queue:q")
    driven.put(producer, single(b"due", deliver_at=NOW + 5000))
    driven.tick(5000)
    driven.put(producer, single(b"delayed", deliver_at=NOW + 10_000))
    set_clock(driven, -MINUTES)
    driven.do(move, driven.core, "queue:q", "queue:other")
    consumer = driven.consumer("queue:other")
    assert driven.got(consumer) == [b"due"]
    driven.tick(5000)
    assert driven.got(consumer) == [b"due", b"delayed"]


def test_an_expiry_is_a_time_of_the_wall_clock() -> None:
    driven = Driven()
    producer = driven.producer("queue:q")
    driven.put(producer, single(b"1", expiration=NOW + 5000))
    set_clock(driven, -MINUTES)
    driven.tick(MINUTES)
    assert driven.queue("q").messages == 1
    set_clock(driven, 5000)
    assert (driven.queue("q").messages, driven.queue("q").counters.expired) == (0, 1)


def test_a_hold_takes_as_long_as_it_takes() -> None:
    driven = Driven(message_limit=1, producer_window=10)
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q")
    driven.send(producer, b"x" * 20)
    driven.tick(70)
    for step in (-MINUTES, 2 * MINUTES, -MINUTES):
        set_clock(driven, step)
        assert totals(driven.core)["held_ms"] == 70
    set_clock(driven, -MINUTES)
    driven.acknowledge(consumer, 1)
    assert totals(driven.core)["held_ms"] == 70
    assert [*driven.core.flow.episodes] == [Episode("queue:q", NOW - MINUTES, NOW - MINUTES + 70)]


def test_monitoring_measures_by_the_monotonic_clock() -> None:
    driven = Driven(monitoring="high")
    driven.tick(1000)
    producer = driven.producer("queue:q")
    driven.send(producer, b"1", b"2")
    driven.tick(2000)
    set_clock(driven, -MINUTES)
    driven.consumer("queue:q", 1)
    about = seen(driven)
    assert (about["on_queue_short_us"], about["oldest_age_ms"]) == (2 * SECOND, 2000)
    assert (about["last_put_ms"], about["last_get_ms"]) == (NOW + 1000 - MINUTES, NOW + 3000 - MINUTES)
    driven.tick(1000)
    driven.send(producer, b"3")
    # Three seconds after the first look; it does not wait until the clock shows again what it showed then.
    assert describe(driven.core, "queue:q")["monitoring"]["put_rate"] is not None


def test_ids_of_a_transmission_queue_are_not_used_again_by_a_clock_that_was_set_back() -> None:
    driven = linked()
    producer = driven.producer("queue:orders")
    driven.send(producer, b"kept", persistent=True)
    driven.sync()
    # Of these the journal knows nothing.
    driven.send(producer, *(b"%d" % n for n in range(100)))
    used = driven.queue("transmit.B").next_id
    set_clock(driven, -MINUTES)
    assert driven.restarted().queue("transmit.B").next_id > used
    driven.do(delete, driven.core, "queue:transmit.B")
    driven.producer("queue:orders")
    assert driven.queue("transmit.B").next_id >= used
