"""Student's t for the 95 % confidence interval of a mean."""

from functools import lru_cache
from math import atan, cos, pi, sin, sqrt
from typing import Final

_NORMAL_975: Final = 1.959963984540054
# Above this many degrees of freedom the series in 1/df is exact to twelve digits; the finite sum would be slow.
_LARGE: Final = 2000


@lru_cache(maxsize=1024)
def t975(df: int) -> float:
    """Return the 97.5 % quantile of Student's t. The interval of n values is mean +- t975(n - 1) * s / sqrt(n)."""
    if df < 1:
        raise ValueError(f"{df} degrees of freedom: an interval needs at least two values")
    if df > _LARGE:
        return _series(df)
    low, high = _NORMAL_975, 13.0
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, df) < 0.95 else (low, middle)
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


def _series(df: int) -> float:
    """Return the quantile by the Cornish-Fisher expansion around the normal quantile."""
    z = _NORMAL_975
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / df + second / df**2 + third / df**3
