import pytest

from mqlab.study.statistics import t975


@pytest.mark.parametrize(
    ("df", "quantile"),
    # The printed tables of Student's t.
    [(1, 12.7062047362), (2, 4.3026527297), (3, 3.1824463053), (4, 2.7764451052), (5, 2.5705818356), (9, 2.2621571629),
     (10, 2.2281388520), (30, 2.0422724563), (60, 2.0002978221), (100, 1.9839715185), (1000, 1.9623390808)],
)  # fmt: skip
def test_the_quantiles_of_the_tables(df: int, quantile: float) -> None:
    assert t975(df) == pytest.approx(quantile, abs=5e-10)


def test_the_sum_and_the_series_meet() -> None:
    below, above = t975(2000), t975(2001)
    assert 0 < below - above < 1e-6
    assert t975(10**9) == pytest.approx(1.959963984540054, abs=1e-8)


def test_it_falls_with_every_degree() -> None:
    quantiles = [t975(df) for df in range(1, 200)]
    assert quantiles == sorted(quantiles, reverse=True)


def test_one_value_has_no_interval() -> None:
    with pytest.raises(ValueError, match="two values"):
        t975(0)
