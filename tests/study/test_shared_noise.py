import numpy as np
import pytest

from mqlab.study.shared_noise import BIAS, SPREAD, RunNoise, moderated, share
from mqlab.study.statistics import look_quantile


def noises(
    generator: np.random.Generator, points: int, runs: int, deviations: np.ndarray
) -> tuple[list[float], list[RunNoise]]:
    """The means of points whose true mean is 1, and the noise of their runs."""
    values = 1 + generator.normal(size=(points, runs)) * deviations[:, None]
    found = [RunNoise.of(row) for row in values.tolist()]
    assert all(found)
    return values.mean(axis=1).tolist(), [noise for noise in found if noise]


def test_the_tables_are_those_of_the_literature() -> None:
    """Digamma of 1/2, 1, 3/2 is -1.96351, -0.57722, 0.03649; trigamma is 4.93480, 1.64493, 0.93480."""
    assert [BIAS[0] + np.log(0.5), BIAS[1], BIAS[2] + np.log(1.5)] == pytest.approx(
        [-1.9635100260, -0.5772156649, 0.0364899740], abs=1e-9
    )
    assert SPREAD[:3] == pytest.approx([4.9348022005, 1.6449340668, 0.9348022005], abs=1e-9)


def test_equal_points_share_all_their_noise() -> None:
    generator = np.random.default_rng(1)
    _, own = noises(generator, 200, 3, np.full(200, 0.05))
    shared = share(own)
    assert shared is not None
    assert shared.variance == pytest.approx(0.05**2, rel=0.15)
    assert shared.degrees_of_freedom > 20
    assert shared.total == 400


def test_points_that_differ_share_little() -> None:
    generator = np.random.default_rng(2)
    _, own = noises(generator, 200, 12, 0.05 * np.exp(generator.normal(0, 1, 200)))
    shared = share(own)
    assert shared is not None
    assert shared.degrees_of_freedom < 4


def test_a_variance_is_never_made_smaller() -> None:
    own = [RunNoise(variance, 2) for variance in (1e-6, 1e-4, 1e-4, 2e-4, 5e-2)]
    for before, after in zip(own, moderated(own), strict=True):
        assert after is not None
        assert after.variance >= before.variance
        assert before.degrees_of_freedom <= after.degrees_of_freedom <= 10


def test_a_few_points_keep_their_own() -> None:
    own = [RunNoise(1e-4, 2), None, RunNoise(2e-4, 2), RunNoise(0.0, 2), RunNoise(3e-4, 2)]
    assert moderated(own) == own


@pytest.mark.parametrize("spread", [0.0, 0.4, 0.8])
@pytest.mark.parametrize("runs", [3, 6])
def test_the_intervals_contain_the_truth(runs: int, spread: float) -> None:
    """Of points that are equally noisy, and of others: `spread` is the deviation of the logarithm of their noise."""
    generator = np.random.default_rng(runs)
    inside = points = 0
    for _ in range(100):
        means, own = noises(generator, 24, runs, 0.06 * np.exp(generator.normal(0, spread, 24)))
        for mean, noise in zip(means, moderated(own), strict=True):
            assert noise is not None
            inside += abs(mean - 1) <= mean * noise.half_width(runs, looks=1)
            points += 1
    assert 0.93 < inside / points < 0.975


def test_the_intervals_of_all_looks_together_contain_the_truth() -> None:
    """With known noise: the share of sequences of which some interval misses is 5 %."""
    generator = np.random.default_rng(4)
    for looks in (2, 3, 5):
        ends = [3 * 2**look for look in range(looks)]
        sums = np.cumsum(generator.normal(size=(20_000, ends[-1])), axis=1)
        missed = np.zeros(20_000, dtype=bool)
        for end in ends:
            missed |= np.abs(sums[:, end - 1]) > look_quantile(10**6, looks) * np.sqrt(end)
        assert missed.mean() == pytest.approx(0.05, abs=0.006)
