"""The limits of the embedded broker for points whose producers wait for nothing."""

import pytest

from mqlab.study import Point
from mqlab.systems import System, system
from runner.points import asking, point


def limits(chosen: System) -> dict[str, str]:
    return {name: value for name, value in chosen.settings.items() if name in ("queue_limit", "producer_window")}


def test_the_messages_on_their_way_are_bounded() -> None:
    """4,096 in all queues, and as many on the way to them; no queue and no producer has fewer than 128."""
    free = point(size=100, producers=4)
    assert limits(system("embedded").for_point(free, {})) == {"queue_limit": "409600", "producer_window": "102400"}
    many = point(size=100, producers=1000, destinations=1000)
    assert limits(system("embedded").for_point(many, {})) == {"queue_limit": "12800", "producer_window": "12800"}


@pytest.mark.parametrize(("consumers", "messages"), [(1, 4096), (4, 1024), (100, 512)])
def test_each_copy_of_a_message_counts(consumers: int, messages: int) -> None:
    topic = point(size=1, producers=1, consumers=consumers, destinations=1, domain="topic")
    assert topic.copies == consumers
    assert limits(system("embedded").for_point(topic, {})) == {
        "queue_limit": str(messages), "producer_window": str(messages),
    }  # fmt: skip


@pytest.mark.parametrize(
    "throttled", [point(rate=10.0), point(send="confirmed"), point(transaction=5), point(preload=9), asking()]
)
def test_other_points_have_the_limits_of_the_broker(throttled: Point) -> None:
    assert limits(system("embedded").for_point(throttled, {})) == {}


def test_a_limit_of_the_user_or_of_the_study_stays() -> None:
    free = point(size=100, producers=1)
    assert limits(system("embedded:queue_limit=1MB").for_point(free, {})) == {
        "queue_limit": "1MB", "producer_window": "409600",
    }  # fmt: skip
    assert limits(system("embedded").for_point(free, {"message_limit": "9"})) == {"producer_window": "409600"}
    assert limits(system("embedded").for_point(free, {"producer_window": "64KiB"})) == {
        "queue_limit": "409600", "producer_window": "64KiB",
    }  # fmt: skip
