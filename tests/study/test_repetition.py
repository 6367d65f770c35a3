import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqlab.study import RepetitionRule

RATES = [100.0, 102.0, 98.0]


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("interval(rate) < 3%", 4.302652729 * 2 / 3**0.5 / 100),  # t x s / sqrt(n), of the mean
        ("spread(rate) < 1%", 4 / 100),
        ("sigma2(rate) < 5%", 2 * 2 / 3**0.5 / 100),
    ],
)
def test_widths(text: str, width: float) -> None:
    assert RepetitionRule.parse(text).width(RATES) == pytest.approx(width)


def test_known_means_below_the_limit() -> None:
    assert RepetitionRule.parse("spread(rate) < 4.1%").is_met(RATES)
    assert not RepetitionRule.parse("spread(rate) < 4%").is_met(RATES)


@pytest.mark.parametrize("values", [[], [5.0], [0.0, 0.0], [float("inf"), 1.0]])
def test_without_a_width_nothing_is_known(values: list[float]) -> None:
    rule = RepetitionRule.parse("interval(rate) < 3%")
    assert rule.width(values) is None
    assert not rule.is_met(values)


@pytest.mark.parametrize(
    "text", ["", "3%", "interval(rate)", "interval(latency) < 3%", "range(rate) < 3%", "interval(rate) < 0%",
             "interval(rate) < 100%", "interval(rate) < 3", "interval(rate) > 3%"],
)  # fmt: skip
def test_what_is_no_rule(text: str) -> None:
    with pytest.raises(ValueError, match=r"write"):
        RepetitionRule.parse(text)


@given(st.sampled_from(["interval", "spread", "sigma2"]), st.integers(1, 9999).map(lambda n: n / 100))
def test_a_rule_comes_back(kind: str, percent: float) -> None:
    rule = RepetitionRule.parse(f"{kind}(rate) < {percent}%")
    assert RepetitionRule.parse(str(rule)) == rule


@given(st.lists(st.floats(1, 1e6), min_size=2, max_size=9), st.floats(0.1, 1000))
def test_a_width_does_not_depend_on_the_unit_of_the_rate(values: list[float], factor: float) -> None:
    for kind in ("interval", "spread", "sigma2"):
        rule = RepetitionRule(kind, 0.03)
        assert rule.width([value * factor for value in values]) == pytest.approx(rule.width(values), rel=1e-6, abs=1e-9)
