"""The noise of a run, as all points of a system tell it.

Three runs of a point know little of their own noise: Student's t makes their interval wide, and a point whose runs
agree by chance looks as if it were known. The runs of the other points tell how noisy a run is on that system. So the
variance of a point is moderated by theirs (Smyth, 2004): the variances of all points, as far as they agree, count as a
number of runs more. A point's own variance is never made smaller. docs/decisions/0020-looking.md: what that assumes.
"""

from collections.abc import Sequence
from math import exp, inf, log, pi, sqrt
from statistics import fmean, variance
from typing import Final, NamedTuple

from mqlab.study.statistics import look_quantile

# The most degrees of freedom that the other points can add: beyond it Student's t hardly falls.
MOST_SHARED: Final = 200
# With fewer points nothing can be said of how much their variances agree.
FEWEST_POINTS: Final = 4
_EULER: Final = 0.5772156649015329


class RunNoise(NamedTuple):
    """The variance of a single run: of its logarithm or, which is nearly the same, relative to the squared mean."""

    variance: float
    degrees_of_freedom: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "RunNoise | None":
        """None with fewer than two runs, or a mean of zero."""
        mean = fmean(values) if len(values) > 1 else 0.0
        if not 0 < mean < inf:
            return None
        # Their mean may differ from equal values by its rounding.
        squares = sum((value / mean - 1) ** 2 for value in values) if min(values) < max(values) else 0.0
        return cls(squares / (len(values) - 1), len(values) - 1)

    def half_width(self, runs: int, looks: int) -> float:
        """Half the width of the 95 % interval of the mean of so many runs, at each of so many looks."""
        return look_quantile(self.degrees_of_freedom, looks) * sqrt(self.variance / runs)


class SharedNoise(NamedTuple):
    """The noise of all points: a variance that counts as these degrees of freedom. `total`: those of all points."""

    variance: float
    degrees_of_freedom: int
    total: int

    def moderate(self, own: RunNoise) -> RunNoise:
        degrees = self.degrees_of_freedom + own.degrees_of_freedom
        both = self.degrees_of_freedom * self.variance + own.degrees_of_freedom * own.variance
        return RunNoise(max(own.variance, both / degrees), min(degrees, max(own.degrees_of_freedom, self.total)))


def moderated(noises: Sequence[RunNoise | None]) -> list[RunNoise | None]:
    """The noise of each point, moderated by that of all."""
    shared = share([noise for noise in noises if noise])
    return [shared.moderate(noise) if noise and shared else noise for noise in noises]


def share(noises: Sequence[RunNoise]) -> SharedNoise | None:
    """The noise that the points have in common, by the logarithms of their variances; None if they are too few.

    The logarithm of a variance with d degrees of freedom spreads by trigamma(d / 2) by chance alone. Any spread
    beyond that is the difference of the points, which sets how many degrees of freedom they are worth to each other.
    """
    used = [noise for noise in noises if noise.variance > 0]
    if len(used) < FEWEST_POINTS:
        return None
    logs = [log(noise.variance) - BIAS[_index(noise)] for noise in used]
    excess = variance(logs) - fmean(SPREAD[_index(noise)] for noise in used)
    degrees = sum(spread > excess for spread in SPREAD)
    if not degrees:
        return None
    return SharedNoise(exp(fmean(logs) + BIAS[degrees - 1]), degrees, sum(noise.degrees_of_freedom for noise in used))


def _index(noise: RunNoise) -> int:
    return min(noise.degrees_of_freedom, MOST_SHARED) - 1


def _tables() -> tuple[list[float], list[float]]:
    """Digamma and trigamma of d / 2, by their recurrences from 1/2 and 1."""
    bias, spread = [], []
    digamma = {1: -_EULER - 2 * log(2), 0: -_EULER}
    trigamma = {1: pi**2 / 2, 0: pi**2 / 6}
    for degrees in range(1, MOST_SHARED + 1):
        half, odd = degrees / 2, degrees % 2
        bias.append(digamma[odd] - log(half))
        spread.append(trigamma[odd])
        digamma[odd] += 1 / half
        trigamma[odd] -= 1 / half**2
    return bias, spread


# By degrees of freedom, from 1 on: the mean of the logarithm of a variance whose true value is 1; and its variance.
BIAS, SPREAD = _tables()
