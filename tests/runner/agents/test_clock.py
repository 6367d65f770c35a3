"""The measured offset of a clock, against clocks whose offset is known."""

import asyncio
import random
from collections.abc import Callable

import pytest

from mqlab.runner.agents.channel import Place
from mqlab.runner.agents.clock import ClockOffset, measure_offset

SECOND = 10**9
MILLISECOND = 10**6


class Network:
    """A conductor and an agent whose clock is `offset` behind; a message takes as long as `delay` says."""

    def __init__(self, offset: int, delay: Callable[[], int]) -> None:
        self.now = 5 * SECOND
        self._offset = offset
        self._delay = delay

    async def read_clock(self) -> int:
        self.now += self._delay()
        moment = self.now - self._offset
        self.now += self._delay()
        return moment

    def measured(self) -> ClockOffset:
        return asyncio.run(measure_offset(self.read_clock, lambda: self.now))


@pytest.mark.parametrize("offset", [0, 1, -7 * SECOND, 86_400 * SECOND])
def test_equal_ways_give_the_offset_itself(offset: int) -> None:
    measured = Network(offset, lambda: 3 * MILLISECOND).measured()
    assert measured.offset_ns == offset
    assert measured.error_ns == 3 * MILLISECOND + 1


@pytest.mark.parametrize("seed", range(20))
def test_the_true_offset_is_within_the_error_however_long_each_way_takes(seed: int) -> None:
    delays = random.Random(seed)
    offset = delays.randrange(-SECOND, SECOND)
    measured = Network(offset, lambda: delays.choice((10_000, delays.randrange(200 * MILLISECOND)))).measured()
    assert abs(measured.offset_ns - offset) <= measured.error_ns


def test_one_quick_round_trip_is_enough() -> None:
    delays = iter([100 * MILLISECOND] * 10 + [1000, 1000] + [100 * MILLISECOND] * 30)
    measured = Network(SECOND, lambda: next(delays)).measured()
    assert abs(measured.offset_ns - SECOND) <= measured.error_ns <= 1001


def test_moments_there_and_back() -> None:
    clock = ClockOffset(offset_ns=-40, error_ns=2)
    assert clock.to_conductor(100) == 60
    assert clock.to_agent(60) == 100


@pytest.mark.parametrize(
    ("before", "after"), [((0, 5), (0, 5)), ((100, 5), (300, 20)), ((300, 20), (100, 5)), ((10, 50), (12, 3))]
)
def test_two_measurements_cover_the_drift_between_them(before: tuple[int, int], after: tuple[int, int]) -> None:
    joined = ClockOffset(*before).joined(ClockOffset(*after))
    for offset, error in (before, after):
        assert joined.offset_ns - joined.error_ns <= offset - error
        assert joined.offset_ns + joined.error_ns >= offset + error


def test_a_place_knows_what_it_shares_with_another() -> None:
    here = Place.here()
    assert here.has_clock_of(here)
    assert here.has_loopback_of(here)
    assert here.has_processes_of(here)
    assert not here.has_clock_of(here._replace(time="time:[1]"))
    assert not here.has_loopback_of(here._replace(net="net:[1]"))
    assert not here.has_processes_of(here._replace(pid="pid:[1]"))
    other = here._replace(boot="another")
    assert not any((here.has_clock_of(other), here.has_loopback_of(other), here.has_processes_of(other)))
