"""Change points of made-up series: levels are found where they begin, and noise alone has none."""

import numpy as np
import numpy.typing as npt
import pytest

from mqlab.pipeline.kernels.change_points import ChangePoint, find_change_points


def noisy(levels: list[tuple[float, int]], seed: int, deviation: float = 1.0) -> npt.NDArray[np.float64]:
    random = np.random.default_rng(seed)
    return np.concatenate([random.normal(level, deviation, count) for level, count in levels])


def places(values: npt.NDArray[np.float64]) -> list[int]:
    return [change.place for change in find_change_points(values)]


def test_a_step_is_found_where_it_is() -> None:
    assert [places(noisy([(100, 8), (90, 4)], seed)) for seed in range(20)] == [[8]] * 20


def test_a_fall_and_the_rise_after_it_do_not_hide_each_other() -> None:
    assert [places(noisy([(100, 8), (90, 4), (100, 8)], seed)) for seed in range(20)] == [[8, 12]] * 20


@pytest.mark.parametrize("count", [4, 8, 30, 100])
def test_noise_alone_has_hardly_ever_one(count: int) -> None:
    false_alarms = sum(bool(places(noisy([(100, count)], seed))) for seed in range(400))
    assert false_alarms <= 3, "one of a thousand is allowed"


def test_a_single_value_far_away_is_no_level() -> None:
    values = noisy([(100, 20)], seed=1)
    values[10] = 50.0
    assert places(values) == []


def test_values_without_noise() -> None:
    assert find_change_points(np.array([5.0, 5, 5, 5, 7, 7])) == [ChangePoint(4, 5.0, 7.0)]
    assert places(np.full(9, 0.1)) == []


def test_three_values_are_too_few() -> None:
    assert places(np.array([1.0, 1.0, 9.0])) == []


def test_large_numbers_keep_their_small_steps() -> None:
    values = 1e12 + noisy([(0, 10), (50, 10)], seed=3)
    assert places(values) == [10]
