"""The limits of the embedded broker for points whose producers wait for nothing."""

import pytest

from mqlab.study import Point
from mqlab.systems import System, system
from runner.points import asking, point


def limits(chosen: System) -> dict[str, str]:
    return {name: value for name, value in chosen.settings.items() if name in ("queue_limit", "producer_window")}


def test_the_messages_on_their_way_are_bounded() -> None:
    """In all 4,096 in a queue, and as many on the way to it."""
    free = point(size=100, producers=4)
    assert limits(system("embedded").for_point(free, {})) == {"queue_limit": "409600", "producer_window": "102400"}
    many = point(size=100, producers=1000)
    assert limits(system("embedded").for_point(many, {}))["producer_window"] == "12800"


@pytest.mark.parametrize(
    "throttled", [point(rate=10.0), point(send="confirmed"), point(transaction=5), point(preload=9), asking()]
)
def test_other_points_have_the_limits_of_the_broker(throttled: Point) -> None:
    assert limits(system("embedded").for_point(throttled, {})) == {}


def test_a_limit_of_the_user_or_of_the_study_stays_alone() -> None:
    free = point()
    assert limits(system("embedded:queue_limit=1MB").for_point(free, {})) == {"queue_limit": "1MB"}
    assert limits(system("embedded").for_point(free, {"producer_window": "64KiB"})) == {"producer_window": "64KiB"}
