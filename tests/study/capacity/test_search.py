"""The search on systems whose limit is known: it finds the limit, confirms it, and says so if there is none."""

from collections.abc import Callable
from math import exp, log
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.study.capacity.search import CONFIRMED, REJECTED, Capacity, CapacitySearch, Trial, by_rate

GOAL_S = 0.010
# Of a run's latency, as its logarithm: 10 % is what short runs on a quiet machine have.
NOISE = 0.10
WITHIN = 0.015


def queue_latency(rate: float, limit: float) -> float:
    """The latency of a queue that reaches the goal at `limit`, and is full one tenth above it."""
    full = 1.1 * limit
    return GOAL_S * (1 - limit / full) / (1 - rate / full) if rate < full else 1000.0


def run_at(rate: float, limit: float, random: Random, noise: float = NOISE) -> Trial:
    latency = exp(log(queue_latency(rate, limit)) + random.gauss(0, noise))
    held = latency < GOAL_S
    return Trial(rate, "held" if held else "missed", "" if held else f"{latency:.4f} s")


def searched(search: CapacitySearch, run: Callable[[float], Trial]) -> tuple[Capacity, list[Trial]]:
    trials: list[Trial] = []
    while runs := search.next_runs(trials):
        assert all(number > 0 for number in runs.values())
        trials += [run(rate) for rate, number in runs.items() for _ in range(number)]
    return search.result(trials), trials


@settings(derandomize=True, max_examples=300)
@given(st.floats(30, 2e6), st.floats(0.3, 3), st.integers(0, 10**6))
def test_a_noisy_limit_is_found_within_three_percent(limit: float, guessed: float, seed: int) -> None:
    random = Random(seed)
    search = CapacitySearch(guess=guessed * limit, floor=1.0, ceiling=1e7, tolerance=WITHIN)
    found, trials = searched(search, lambda rate: run_at(rate, limit, random))
    assert found.status == "found"
    assert found.rate == pytest.approx(limit, rel=0.03)
    assert found.rate is not None
    assert (found.low or 0.0) <= found.rate < (found.high or 0.0)
    assert len(trials) <= 60


@given(st.floats(30, 2e6), st.floats(0.3, 3), st.integers(0, 10**6), st.floats(0, 1))
def test_what_is_found_was_confirmed_and_just_above_it_rejected(
    limit: float, guessed: float, seed: int, noise: float
) -> None:
    """However noisy the runs are."""
    random = Random(seed)
    search = CapacitySearch(guess=guessed * limit, floor=1.0, ceiling=1e7, tolerance=WITHIN)
    found, trials = searched(search, lambda rate: run_at(rate, limit, random, noise))
    rates = by_rate(trials)
    if found.rate is not None and found.status in ("found", "undecided"):
        assert rates[found.rate].held - rates[found.rate].missed >= CONFIRMED
    if found.status == "found":
        assert found.above is not None
        assert found.rate is not None
        assert found.above.is_rejected
        assert found.rate < found.above.rate <= 1.016 * found.rate


def test_without_noise_the_bracket_holds_the_limit() -> None:
    found, _ = searched(CapacitySearch(100_000, 1.0, 1e7, WITHIN), lambda rate: run_at(rate, 37_777.0, Random(0), 0.0))
    assert found.above is not None
    assert found.rate is not None
    assert (found.low, found.high) == (found.rate, found.above.rate)
    assert found.rate < 37_777.0 <= found.above.rate


def test_a_goal_that_even_the_lowest_rate_misses() -> None:
    found, trials = searched(CapacitySearch(5000, 10.0, 1e7, WITHIN), lambda rate: Trial(rate, "missed", "p99 12 ms"))
    assert (found.status, found.rate, found.reason) == ("below", 10.0, "p99 12 ms")
    assert sum(trial.rate == 10.0 for trial in trials) == -REJECTED


def test_a_goal_that_every_rate_holds() -> None:
    found, trials = searched(CapacitySearch(5000, 10.0, 1e6, WITHIN), lambda rate: Trial(rate, "held"))
    assert (found.status, found.rate) == ("above", 1e6)
    assert sum(trial.rate == 1e6 for trial in trials) == CONFIRMED


def test_a_guess_below_the_lowest_rate() -> None:
    found, _ = searched(CapacitySearch(1.0, 100.0, 1e6, WITHIN), lambda rate: run_at(rate, 5000.0, Random(0), 0.0))
    assert found.rate == pytest.approx(5000, rel=0.03)


def test_one_bad_run_far_below_the_limit_does_not_end_the_search() -> None:
    bad = [True]

    def run(rate: float) -> Trial:
        if rate < 3000 and bad and bad.pop():
            return Trial(rate, "missed", "a hiccup")
        return run_at(rate, 10_000.0, Random(0), 0.0)

    found, _ = searched(CapacitySearch(10_000, 1.0, 1e6, WITHIN), run)
    assert found.rate == pytest.approx(10_000, rel=0.03)


def test_hiccups_at_every_rate_do_not_drag_the_limit_down() -> None:
    """A tenth of all runs misses the goal for reasons of the machine: the limit is found all the same."""

    def searched_again(seed: int) -> float:
        random = Random(seed)

        def run(rate: float) -> Trial:
            return Trial(rate, "missed", "a hiccup") if random.random() < 0.1 else run_at(rate, 10_000.0, random)

        found, _ = searched(CapacitySearch(random.uniform(5000, 15_000), 1.0, 1e6, WITHIN), run)
        return found.rate or 0.0

    rates = [searched_again(seed) for seed in range(100)]
    assert sum(rate == pytest.approx(10_000, rel=0.05) for rate in rates) >= 97


def test_a_rate_that_was_rejected_in_a_bad_time_is_played_again() -> None:
    held = [Trial(rate, "held") for rate in (5000.0, *[9000.0] * 4)]
    missed = [Trial(7000.0, "missed", "a bad time")] * -REJECTED + [Trial(20_000.0, "missed")] * -REJECTED
    asked = CapacitySearch(10_000, 1.0, 1e6, WITHIN).next_runs(held + missed)
    assert asked == {7000.0: 1}


def test_disturbed_runs_are_repeated_before_they_count() -> None:
    disturbed = {8000.0: 2}

    def run(rate: float) -> Trial:
        if disturbed.get(rate, 0) > 0:
            disturbed[rate] -= 1
            return Trial(rate, "unknown", "disturbed")
        return run_at(rate, 10_000.0, Random(0), 0.0)

    found, trials = searched(CapacitySearch(8000, 1.0, 1e6, WITHIN), run)
    assert disturbed == {8000.0: 0}
    assert by_rate(trials)[8000.0].missed == 0
    assert found.rate == pytest.approx(10_000, rel=0.03)


def test_a_machine_that_is_never_quiet_ends_the_search_too() -> None:
    found, trials = searched(CapacitySearch(5000, 10.0, 1e7, WITHIN), lambda rate: Trial(rate, "unknown", "disturbed"))
    assert (found.status, found.reason) == ("below", "disturbed")
    assert len(trials) < 80


def test_runs_that_decide_nothing_end_after_the_most_runs() -> None:
    random = Random(1)
    search = CapacitySearch(5000, 10.0, 1e7, WITHIN, most_runs=6)
    found, trials = searched(search, lambda rate: run_at(rate, 4000, random, 0.0))
    assert (found.status, found.rate, found.reason) == ("undecided", None, f"{len(trials)} runs did not decide it")
