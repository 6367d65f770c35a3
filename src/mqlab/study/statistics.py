"""Student's t for confidence intervals, of a fixed number of runs or of a number that looking at them decides."""

from functools import lru_cache
from math import atan, cos, pi, sin, sqrt
from statistics import NormalDist
from typing import Final

# The runs of a point after which the lab looks whether it needs more. Their number is given in advance, so that the
# intervals of all looks together contain the truth in 95 % of all cases (Pocock, 1977).
LOOKS: Final = (1, 3, 6, 12, 24, 48, 96)
# By the number of looks: the probability outside of each interval, on each side.
_TAILS: Final = (0.025, 0.013827, 0.009924, 0.007725, 0.006305, 0.005314, 0.004584, 0.004025)
# Above this many degrees of freedom the series in 1/df is exact to twelve digits; the finite sum would be slow.
_LARGE: Final = 2000


def look_count(most: int) -> int:
    """Return how often the lab looks at a point that has at most so many runs; the last look is the report."""
    return 1 + sum(runs < most for runs in LOOKS)


def next_look(runs: int, most: int) -> int:
    """Return the number of runs at the next look at a point that has so many, and at most `most`."""
    return next((look for look in LOOKS if runs < look < most), most)


def look_quantile(df: int, looks: int) -> float:
    """Return the quantile for the interval of each of so many looks."""
    return t_quantile(df, 1 - _TAILS[looks - 1])


def t975(df: int) -> float:
    """Return the 97.5 % quantile of Student's t. The interval of n values is mean +- t975(n - 1) * s / sqrt(n)."""
    return t_quantile(df, 0.975)


@lru_cache(maxsize=4096)
def t_quantile(df: int, probability: float) -> float:
    """Return the quantile of Student's t for a probability above one half."""
    if df < 1:
        raise ValueError(f"{df} degrees of freedom: an interval needs at least two values")
    normal = NormalDist().inv_cdf(probability)
    if df > _LARGE:
        return _series(df, normal)
    inside, low, high = 2 * probability - 1, normal, 2 * normal
    while _within(high, df) < inside:
        high *= 2
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, df) < inside else (low, middle)
    return (low + high) / 2


def _within(t: float, df: int) -> float:
    """Return the probability between -t and t: a finite sum for integer degrees of freedom."""
    angle = atan(t / sqrt(df))
    odd = df % 2
    term, total = (cos(angle) if odd else 1.0), 0.0
    for step in range(2 + odd, df + 1, 2):
        total += term
        term *= (step - 1) / step * cos(angle) ** 2
    return 2 / pi * (angle + sin(angle) * total) if odd else sin(angle) * total


def _series(df: int, z: float) -> float:
    """Return the quantile by the Cornish-Fisher expansion around the normal quantile."""
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / df + second / df**2 + third / df**3
