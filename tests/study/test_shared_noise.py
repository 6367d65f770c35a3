import numpy as np
import pytest

from mqlab.study.shared_noise import FEWEST_POINTS, RunNoise, moderated, share
from mqlab.study.statistics import LOOKS, look_quantile


def noises(
    generator: np.random.Generator, points: int, runs: int, deviations: np.ndarray
) -> tuple[list[float], list[RunNoise]]:
    """The means of points whose true mean is 1, and the noise of their runs."""
    values = 1 + generator.normal(size=(points, runs)) * deviations[:, None]
    found = [RunNoise.of(row) for row in values.tolist()]
    assert all(found)
    return values.mean(axis=1).tolist(), [noise for noise in found if noise]


@pytest.mark.parametrize("worth", [2, 8])
def test_the_worth_of_the_others_is_found(worth: int) -> None:
    """Variances about a common one, which differ as those of so many degrees of freedom do."""
    generator = np.random.default_rng(3)
    true = 0.05**2 * worth / generator.chisquare(worth, 2000)
    shared = share([RunNoise(variance, 4) for variance in (true * generator.chisquare(4, 2000) / 4).tolist()])
    assert shared is not None
    assert shared.variance == pytest.approx(0.05**2, rel=0.1)
    assert shared.worth == pytest.approx(worth, rel=0.3)


def test_runs_that_agree_by_chance_do_not_hide_what_the_points_share() -> None:
    generator = np.random.default_rng(7)
    _, own = noises(generator, 12, 3, np.full(12, 0.2))
    usual = share(own)
    lucky = share([*own, RunNoise(0.004**2, 2)])
    assert usual is not None
    assert lucky is not None
    assert lucky.variance == pytest.approx(usual.variance, rel=0.25)
    assert lucky.worth >= 8


def test_equal_points_share_all_their_noise() -> None:
    generator = np.random.default_rng(1)
    _, own = noises(generator, 200, 3, np.full(200, 0.05))
    shared = share(own)
    assert shared is not None
    assert shared.variance == pytest.approx(0.05**2, rel=0.15)
    assert shared.worth > 20
    assert shared.total == 400


def test_points_that_differ_share_little() -> None:
    generator = np.random.default_rng(2)
    _, own = noises(generator, 200, 12, 0.05 * np.exp(generator.normal(0, 1, 200)))
    shared = share(own)
    assert shared is not None
    assert shared.worth < 4


def test_a_variance_is_never_made_smaller() -> None:
    own = [RunNoise(variance, 2) for variance in (1e-6, 1e-4, 1e-4, 2e-4, 5e-2)]
    for before, after in zip(own, moderated(own), strict=True):
        assert after is not None
        assert after.variance >= before.variance
        assert before.degrees_of_freedom <= after.degrees_of_freedom <= 10


def test_a_few_points_keep_their_own() -> None:
    own = [RunNoise(1e-4, 2), None, RunNoise(2e-4, 2), RunNoise(0.0, 2), RunNoise(3e-4, 2)]
    assert len([noise for noise in own if noise and noise.variance]) < FEWEST_POINTS
    assert moderated(own) == own


def test_points_that_have_nothing_in_common_keep_their_own() -> None:
    own = [RunNoise(10.0 ** -(3 * n), 20) for n in range(6)]
    assert share(own) is None


def test_a_single_run_has_the_noise_of_the_others() -> None:
    own = [RunNoise(variance, 2) for variance in (1e-4, 2e-4, 2e-4, 3e-4, 5e-4)]
    *_, single = moderated([*own, None])
    shared = share(own)
    assert single is not None
    assert shared is not None
    assert single.variance == shared.variance
    assert 1 <= single.degrees_of_freedom < 10


@pytest.mark.parametrize("spread", [0.0, 0.25, 0.5])
@pytest.mark.parametrize("runs", [2, 3])
def test_the_interval_of_a_single_run_contains_the_truth(runs: int, spread: float) -> None:
    """`runs`: those of the other points."""
    generator = np.random.default_rng(runs)
    inside = []
    for _ in range(300):
        _, own = noises(generator, 12, runs, 0.06 * np.exp(generator.normal(0, spread, 12)))
        *_, noise = moderated([*own, None])
        assert noise is not None
        errors = generator.normal(size=10) * 0.06 * np.exp(generator.normal(0, spread, 10))
        inside += (np.abs(errors) <= noise.half_width(1, looks=1)).tolist()
    assert 0.93 < np.mean(inside) < 0.99


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
        ends = LOOKS[:looks]
        sums = np.cumsum(generator.normal(size=(20_000, ends[-1])), axis=1)
        missed = np.zeros(20_000, dtype=bool)
        for end in ends:
            missed |= np.abs(sums[:, end - 1]) > look_quantile(10**6, looks) * np.sqrt(end)
        assert missed.mean() == pytest.approx(0.05, abs=0.006)
