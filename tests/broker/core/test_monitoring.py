"""Monitoring: what a look sees, and how often there is one."""

import pytest

from mqlab.broker.core import admin
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.monitoring import Mean, Rate
from mqlab.json_values import JsonObject
from mqlab.wire.native.bodies import encode

from .commands import Driven

SECOND = 1_000_000


def at(driven: Driven, now: int) -> None:
    """It is that late, in microseconds, by both clocks."""
    driven.core.context.now_ms, driven.core.context.monotonic_us = now // 1000, now


def seen(driven: Driven, name: str = "queue:q") -> JsonObject:
    found: JsonObject = admin.describe(driven.core, name)["monitoring"]
    return found


def test_a_mean_begins_with_the_first_look_and_follows_the_others() -> None:
    mean = Mean()
    assert (mean.short, mean.long, mean.looks) == (None, None, 0)
    mean.add(80)
    assert (mean.short, mean.long, mean.looks) == (80, 80, 1)
    mean.add(0)
    assert (mean.short, mean.long, mean.looks) == (70, 78.75, 2)
    for _ in range(1000):
        mean.add(40)
    assert mean.short == pytest.approx(40)
    assert mean.long == pytest.approx(40, rel=1e-4)


def test_many_looks_at_once_are_the_same_as_one_after_the_other() -> None:
    once, each = Mean(), Mean()
    for values in ([], [700], [5, 90, 1000, 3], [*range(100)], [7] * 9000, [2, 4]):
        for value in values:
            each.add(value)
        once.add_all(values[:])
        assert once.looks == each.looks
        assert once.short == pytest.approx(each.short)
        assert once.long == pytest.approx(each.long)


def test_a_rate_is_counted_over_a_second_at_least() -> None:
    rate = Rate()
    rate.look(100, 5 * SECOND)
    rate.look(150, 5 * SECOND + 999_999)
    assert rate.mean.looks == 0
    rate.look(300, 7 * SECOND)
    assert rate.mean.short == 100
    # Nothing happened for long: that counts as one window, too.
    rate.look(300, 17 * SECOND)
    assert rate.mean.short == 87.5


def test_the_time_on_the_queue_is_from_the_send_to_the_delivery() -> None:
    driven = Driven(monitoring="high")
    producer = driven.producer("queue:q")
    at(driven, 1000)
    driven.send(producer, b"1", b"2")
    at(driven, 1300)
    consumer = driven.consumer("queue:q", 1)
    assert (seen(driven)["on_queue_short_us"], seen(driven)["looks"]) == (300, 1)
    at(driven, 1900)
    # The rest of the batch came when the batch came.
    driven.acknowledge(consumer, 1, 1)
    assert (seen(driven)["on_queue_short_us"], seen(driven)["on_queue_long_us"]) == (375, 309)
    at(driven, 2000)
    driven.send(producer, b"3")
    assert (seen(driven)["looks"], seen(driven)["oldest_age_ms"]) == (2, 0)


@pytest.mark.parametrize(("level", "looks"), [("high", 640), ("medium", 80), ("low", 10)])
def test_a_level_is_the_share_of_messages_looked_at(level: str, looks: int) -> None:
    driven = Driven(monitoring=level, stored=False)
    producer, consumer = driven.producer("queue:q"), driven.consumer("queue:q", 10)
    for n in range(640):
        at(driven, n)
        driven.send(producer, b"x")
        driven.acknowledge(consumer, n + 1, 1)
    assert seen(driven)["looks"] == looks
    assert consumer.queue.counters.delivered == 640


def test_off_nobody_looks() -> None:
    driven = Driven(monitoring="off")
    driven.send(driven.producer("queue:q"), b"1")
    consumer = driven.consumer("queue:q")
    assert seen(driven) is None
    assert consumer.queue.monitor is None
    assert admin.totals(driven.core)["monitoring"] == "off"
    # The counters are always on.
    assert consumer.queue.counters.delivered == 1


def test_ages_times_and_rates() -> None:
    driven = Driven(monitoring="high")
    producer = driven.producer("queue:q")
    at(driven, 10 * SECOND)
    assert seen(driven)["oldest_age_ms"] is None
    assert (seen(driven)["last_put_ms"], seen(driven)["last_get_ms"]) == (None, None)
    driven.send(producer, b"1", b"2", b"3", b"4")
    at(driven, 12 * SECOND)
    driven.send(producer, b"5")
    assert (seen(driven)["oldest_age_ms"], seen(driven)["last_put_ms"]) == (2000, 12_000)
    assert seen(driven)["put_rate"] == 2.5
    at(driven, 14 * SECOND)
    consumer = driven.consumer("queue:q", 4)
    # Nothing was sent for two seconds; four messages were received, and none in the two seconds before.
    assert (seen(driven)["put_rate"], seen(driven)["get_rate"]) == (2.188, 0.25)
    assert (seen(driven)["oldest_age_ms"], seen(driven)["last_get_ms"]) == (2000, 14_000)
    at(driven, 16 * SECOND)
    driven.acknowledge(consumer, 4, 1)
    assert seen(driven)["oldest_age_ms"] is None


def test_what_comes_back_has_the_age_it_had() -> None:
    driven = Driven(monitoring="low")
    at(driven, 1 * SECOND)
    driven.send(driven.producer("queue:q"), b"1", b"2", b"3")
    consumer = driven.consumer("queue:q", 2)
    at(driven, 3 * SECOND)
    driven.close(consumer)
    assert seen(driven)["oldest_age_ms"] == 2000


def test_after_a_restart_ages_begin_anew() -> None:
    driven = Driven(monitoring="low")
    driven.core.context.monotonic_us = 9 * SECOND
    queue = driven.core.destinations.queue("q")
    queue.restore(Span(encode([b"x"]), queue.new_ids(1), persistent=True))
    at(driven, 10 * SECOND)
    assert seen(driven)["oldest_age_ms"] == 1000


def test_the_list_has_it_too() -> None:
    driven = Driven(monitoring="high")
    driven.send(driven.producer("queue:q"), b"1")
    driven.consumer("topic:t", durable="d", session=driven.session(client="me"))
    assert [one["monitoring"]["looks"] for one in admin.list_queues(driven.core)] == [0, 0]
