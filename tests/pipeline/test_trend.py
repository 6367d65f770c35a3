"""How often the trend test calls a series without a trend one, and how often it finds a trend. Simulated."""

import numpy as np
import numpy.typing as npt
import pytest

from mqlab.pipeline.kernels.trend import CRITICAL, trend

RUNS, PLACES, NOISE = 2_000, 20, 0.03
# In `pipeline.tables.steadiness` a trend is worth a word above this.
LEAST = 0.05
Values = npt.NDArray[np.float64]


def shares(values: Values) -> tuple[float, float]:
    """The share of series with a trend, and of those whose trend is worth a word."""
    found = np.array([trend(of_run) for of_run in values])
    scores, changes = found[:, 0], found[:, 1]
    is_trend = scores > CRITICAL
    return float(is_trend.mean()), float((is_trend & (np.abs(changes) > LEAST)).mean())


def noise(places: int, dependence: float = 0.0) -> Values:
    """A level of 1 with noise; each value depends on the one before, as in an autoregressive process."""
    random = np.random.default_rng(2026)
    values = np.empty((RUNS, places))
    values[:, 0] = random.normal(size=RUNS)
    for place in range(1, places):
        fresh = random.normal(size=RUNS)
        values[:, place] = dependence * values[:, place - 1] + np.sqrt(1 - dependence**2) * fresh
    return 1 + NOISE * values


@pytest.mark.parametrize("places", [10, PLACES])
def test_one_in_a_hundred_series_without_a_trend_has_one(places: int) -> None:
    any_trend, material = shares(noise(places))
    assert 0.002 < any_trend < 0.016
    assert material <= any_trend


def test_values_that_depend_on_each_other_give_few_false_alarms() -> None:
    any_trend, material = shares(noise(PLACES, dependence=0.3))
    assert any_trend < 0.06
    assert material < 0.05


def test_equal_values_have_no_trend() -> None:
    assert shares(np.ones((10, PLACES))) == (0.0, 0.0)


@pytest.mark.parametrize(("shape", "found"), [("slope", 0.95), ("step", 0.85)])
def test_a_change_by_a_sixth_is_found(shape: str, found: float) -> None:
    place = np.arange(PLACES) / PLACES
    change = place if shape == "slope" else place >= 0.5
    _, material = shares(noise(PLACES) * (1 + change / 6))
    assert material > found
