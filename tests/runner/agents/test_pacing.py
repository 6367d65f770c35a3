"""The schedule, with a clock that only the test moves."""

import asyncio
import time
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.runner.agents import pacing
from mqlab.runner.agents.pacing import ProfileSchedule, RateLimiter, SendSchedule, schedule_of
from mqlab.runner.timeline import NEVER
from mqlab.study.language.rates import parse_profile
from runner.points import point

START = 10**15
SECOND = 10**9


class Clock:
    """Real time plays no part: sleeping moves it, as late as `lateness` says."""

    def __init__(self, now: int, lateness: Callable[[], int] = lambda: 0) -> None:
        self.now = now
        self.lateness = lateness
        self.sleeps: list[float] = []

    def monotonic_ns(self) -> int:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        # However early a timer ends, some time has passed.
        self.now += max(1_000, round(seconds * 1e9) + self.lateness())

    def just_after(self, moment: int) -> bool:
        return moment <= self.now <= moment + 1_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return installed(monkeypatch, Clock(START))


def installed(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Clock:
    monkeypatch.setattr(pacing, "now", clock.monotonic_ns)
    monkeypatch.setattr(asyncio, "sleep", clock.sleep)
    return clock


def taken(schedule: SendSchedule, number: int) -> list[tuple[int, int]]:
    async def take() -> list[tuple[int, int]]:
        return [await schedule.next(NEVER) for _ in range(number)]

    coroutine = take()
    try:
        coroutine.send(None)
    except StopIteration as done:
        return list(done.value)
    raise AssertionError("the schedule waited for something else than the clock")


def test_one_message_at_a_time_at_its_moment(clock: Clock) -> None:
    found = taken(SendSchedule(100, max_count=4096, start=START), 5)
    assert found == [(START + n * SECOND // 100, 1) for n in range(5)]
    assert clock.just_after(found[-1][0])


def test_it_waits_for_the_start(clock: Clock) -> None:
    clock.now = START - SECOND
    taken(SendSchedule(100, max_count=1, start=START), 1)
    assert clock.just_after(START)


def test_at_high_rates_the_messages_of_a_tick_leave_together(clock: Clock) -> None:
    found = taken(SendSchedule(50_000, max_count=4096, start=START), 4)
    assert found == [(START + n * 1_000_000, 50) for n in range(4)]
    assert clock.just_after(found[-1][0])


def test_never_more_at_once_than_a_batch(clock: Clock) -> None:
    found = taken(SendSchedule(50_000, max_count=5, start=START), 4)
    assert found == [(START + n * 100_000, 5) for n in range(4)]
    assert clock.just_after(found[-1][0])


@pytest.mark.parametrize("rate", [10.0, 50_000.0])
def test_a_transaction_is_never_split_or_joined(clock: Clock, rate: float) -> None:
    found = taken(SendSchedule(rate, max_count=10, start=START, whole=True), 3)
    assert found == [(START + round(n * 10 / rate * SECOND), 10) for n in range(3)]
    assert clock.just_after(found[-1][0])


def test_after_a_stall_nothing_is_skipped_and_all_keep_their_planned_time(clock: Clock) -> None:
    schedule = SendSchedule(100, max_count=1, start=START)
    taken(schedule, 10)
    clock.now += 5 * SECOND
    clock.sleeps.clear()
    late = taken(schedule, 500)
    assert [planned for planned, _ in late] == [START + n * SECOND // 100 for n in range(10, 510)]
    assert clock.sleeps == [], "what is late leaves at once"
    assert clock.just_after(taken(schedule, 100)[-1][0]), "and then it is in time again"


@pytest.mark.parametrize("early", [1, 400_000, 5_000_000])
def test_a_timer_that_ends_early_is_not_believed(monkeypatch: pytest.MonkeyPatch, early: int) -> None:
    """An event loop may count in milliseconds; a message that leaves before its time would look faster than it is."""
    clock = installed(monkeypatch, Clock(START, lateness=lambda: -early))
    schedule = SendSchedule(100, max_count=1, start=START)
    for n in range(20):
        assert taken(schedule, 1) == [(START + n * SECOND // 100, 1)]
        assert clock.now >= START + n * SECOND // 100


@settings(deadline=None)
@given(
    rate=st.floats(0.5, 5e6), max_count=st.integers(1, 4096), whole=st.booleans(),
    delays=st.lists(st.integers(0, 3 * SECOND), min_size=1, max_size=60),
)  # fmt: skip
def test_no_system_and_no_timer_can_change_the_plan(
    rate: float, max_count: int, whole: bool, delays: list[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        late = iter(delays)
        clock = installed(patch, Clock(START, lateness=lambda: next(late, 0)))
        schedule = SendSchedule(rate, max_count, START, whole=whole)
        found = []
        for delay in delays:
            found += taken(schedule, 1)
            assert clock.now >= found[-1][0] - 1, "never before its time"
            clock.now += delay
        rows = {number for _, number in found}
        assert len(rows) == 1
        (size,) = rows
        assert 1 <= size <= max_count
        assert not whole or size == max_count
        # By its n-th call it has planned n batches of the rate, to the nanosecond.
        assert [planned for planned, _ in found] == [START + round(n * (size / rate * 1e9)) for n in range(len(delays))]


def test_with_the_real_clock_too() -> None:
    async def real() -> list[tuple[int, int]]:
        schedule = SendSchedule(1000, max_count=1, start=time.monotonic_ns())
        return [await schedule.next(NEVER) for _ in range(5)]

    found = asyncio.run(real())
    assert [b[0] - a[0] for a, b in pairwise(found)] == [1_000_000] * 4


@pytest.mark.parametrize("producers", [1, 2])
def test_a_profile_plans_each_message_where_the_rate_has_reached_its_number(clock: Clock, producers: int) -> None:
    profile = parse_profile("20/s for 1s then 40/s to 80/s over 1s then 10/s")
    found = taken(ProfileSchedule(profile, producers, 100, START), 90 // producers)
    planned = [(moment - START) / SECOND for moment, count in found if count == 1]
    assert len(planned) == len(found)
    # Message n of all is where the area below the rate is n.
    assert planned[0] == 0
    assert planned[10 // producers] == pytest.approx(0.5)
    assert planned[20 // producers] == pytest.approx(1.0)
    assert planned[80 // producers] == pytest.approx(2.0)
    assert planned[-1] == pytest.approx(2.0 + (90 - producers - 80) / 10)
    in_ramp = planned[36 // producers] - 1.0
    assert 40 * in_ramp + 40 * in_ramp**2 / 2 == pytest.approx(16)
    assert clock.just_after(found[-1][0])


def test_bursts_come_again_and_their_messages_leave_together(clock: Clock) -> None:
    # Numbers that a float holds exactly.
    profile = parse_profile("1k/s with 32k/s for 125ms every 1s")
    found = taken(ProfileSchedule(profile, 1, 4096, START), 2000)
    in_bursts = [(round((moment - START) / 1e6), count) for moment, count in found if count > 1]
    assert in_bursts == [(cycle * 1000 + 875 + n, 32) for cycle in (0, 1) for n in range(125)]
    assert sum(count for moment, count in found if moment < START + SECOND) == 875 + 4000
    assert clock.now >= found[-1][0]


def test_a_transaction_is_not_split_by_a_profile(clock: Clock) -> None:
    profile = parse_profile("10/s for 1s then 1k/s")
    found = taken(ProfileSchedule(profile, 1, 10, START, whole=True), 3)
    assert found == [(START, 10), (START + SECOND, 10), (START + SECOND + SECOND // 100, 10)]
    assert clock.just_after(found[-1][0])


def test_a_role_thinks_from_the_moment_at_which_it_could_send_again(clock: Clock) -> None:
    schedule = schedule_of(point(think=0.5, batch=3), 1, 100, START)
    assert schedule is not None
    assert taken(schedule, 1) == [(START, 3)]
    clock.now += 2 * SECOND  # the system takes its time
    begin = clock.now
    assert taken(schedule, 1) == [(begin + SECOND // 2, 3)]
    assert clock.just_after(begin + SECOND // 2)


def test_the_schedule_is_that_of_the_point() -> None:
    assert schedule_of(point(), 1, 100, START) is None
    assert type(schedule_of(point(rate=10.0), 1, 100, START)) is SendSchedule
    assert type(schedule_of(point(profile="1/s to 2/s over 3s"), 1, 100, START)) is ProfileSchedule


class TestBrake:
    def held(self, brake: RateLimiter, rows: int) -> None:
        with pytest.raises(StopIteration):
            brake.after(rows).send(None)

    def test_so_many_messages_take_so_long(self, clock: Clock) -> None:
        brake = RateLimiter(rate=100.0, until=START + 100 * SECOND)
        for number in range(1, 4):
            self.held(brake, 50)
            assert clock.just_after(START + number * SECOND // 2)

    def test_time_without_messages_is_not_made_up_for_but_for_a_little(self, clock: Clock) -> None:
        brake = RateLimiter(rate=100.0, until=START + 100 * SECOND)
        self.held(brake, 50)
        clock.now += 10 * SECOND
        before = clock.now
        self.held(brake, 100)
        assert clock.just_after(before + SECOND - SECOND // 10)

    def test_timers_that_end_late_do_not_lower_the_rate(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Arrivals of 20 messages at 5,000 a second are 4 ms each; a busy machine oversleeps by more than that."""
        clock = installed(monkeypatch, Clock(START, lateness=lambda: 12_000_000))
        brake = RateLimiter(rate=5000.0, until=START + 100 * SECOND)
        for _ in range(250):
            self.held(brake, 20)
        assert START + SECOND <= clock.now <= START + SECOND + 12_001_000

    def test_from_a_moment_on_it_holds_nobody(self, clock: Clock) -> None:
        brake = RateLimiter(rate=1.0, until=START + SECOND)
        self.held(brake, 50)
        assert clock.just_after(START + SECOND)
        sleeps = len(clock.sleeps)
        self.held(brake, 50)
        assert len(clock.sleeps) == sleeps
