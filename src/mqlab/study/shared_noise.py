"""The noise of a run, as all points of a system tell it.

Three runs of a point know little of their own noise: Student's t makes their interval wide, and a point whose runs
agree by chance looks as if it were known. A single run knows nothing of it. The runs of the other points tell how noisy
a run is on that system. So the variance of a point is moderated by theirs (Smyth, 2004): the variances of all points,
as far as they agree, count as a number of runs more. A point's own variance is never made smaller; a point with a
single run has the noise of the others. docs/decisions/0020-looking.md: what that assumes.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import inf, lgamma, sqrt
from statistics import fmean
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mqlab.study.statistics import look_quantile

# With fewer points nothing can be said of how much their variances agree.
FEWEST_POINTS: Final = 4
# The worth of the other points to a point, in degrees of freedom. Below 1 they differ too much to tell anything;
# beyond the last Student's t hardly falls.
_WORTHS: Final = np.array([0.5, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 30, 50, 100, 200], dtype=float)
# A single run cannot show that its point is noisier than the others: they are worth no more to it.
_MOST_OF_SINGLE: Final = 8
# Newton's steps, of which none changes the variance by more than this power of e.
_STEPS: Final = 10
_LONGEST_STEP: Final = 2.0


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
    """The noise that points have in common. `worth`: the degrees of freedom that their agreement is worth to a point.

    `total`: the degrees of freedom of all points, by which the variance itself is known.
    """

    variance: float
    worth: int
    total: int

    @property
    def degrees_of_freedom(self) -> int:
        """Of a point without a noise of its own: it differs from the others, and these are not known exactly."""
        return max(1, int(self.worth * self.total / (self.worth + self.total)))

    def moderate(self, own: RunNoise | None) -> RunNoise:
        if own is None:
            return RunNoise(self.variance, min(self.degrees_of_freedom, _MOST_OF_SINGLE))
        degrees = self.degrees_of_freedom + own.degrees_of_freedom
        both = self.degrees_of_freedom * self.variance + own.degrees_of_freedom * own.variance
        return RunNoise(max(own.variance, both / degrees), min(degrees, max(own.degrees_of_freedom, self.total)))


def moderated(noises: Sequence[RunNoise | None]) -> list[RunNoise | None]:
    """The noise of each point, moderated by that of all; None: it has a single run."""
    shared = share([noise for noise in noises if noise])
    return [shared.moderate(noise) if shared else noise for noise in noises]


def share(noises: Sequence[RunNoise]) -> SharedNoise | None:
    """The noise that the points have in common, by maximum likelihood; None if they are too few, or differ too much.

    If the true variances differ by chance as a variance with `worth` degrees of freedom does, the observed ones have an
    F distribution about the common one (Wright and Simon, 2003). Unlike the moments of their logarithms, its likelihood
    hardly minds a point whose two runs agree by chance.
    """
    used = [noise for noise in noises if noise.variance > 0]
    if len(used) < FEWEST_POINTS:
        return None
    degrees = np.array([noise.degrees_of_freedom for noise in used], dtype=float)
    variances = np.array([noise.variance for noise in used])
    # By worth, the most likely common variance: the root of the derivative of the likelihood, which falls.
    logs = np.full(len(_WORTHS), np.log(degrees @ variances / degrees.sum()))
    least, most = np.log(variances.min()), np.log(variances.max())
    for _ in range(_STEPS):
        weights, shares = _shares(degrees, variances, logs)
        slopes = (weights * shares * (1 - shares)).sum(axis=1)
        steps = ((weights * shares).sum(axis=1) - degrees.sum()) / slopes
        logs = np.clip(logs + np.clip(steps, -_LONGEST_STEP, _LONGEST_STEP), least, most)
    weights, shares = _shares(degrees, variances, logs)
    constants = np.stack([_log_beta(noise.degrees_of_freedom) for noise in used], axis=1)
    likelihoods = ((degrees * np.log(shares) + _WORTHS[:, None] * np.log1p(-shares)) / 2 - constants).sum(axis=1)
    best = int(likelihoods.argmax())
    if _WORTHS[best] < 1:
        return None
    return SharedNoise(float(np.exp(logs[best])), int(_WORTHS[best]), int(degrees.sum()))


def _shares(
    degrees: npt.NDArray[np.float64], variances: npt.NDArray[np.float64], logs: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """For each worth and point: all degrees of freedom, and the share of its own squares in all squares."""
    common = _WORTHS[:, None] * np.exp(logs)[:, None]
    return degrees + _WORTHS[:, None], degrees * variances / (degrees * variances + common)


@lru_cache(maxsize=1024)
def _log_beta(degrees: int) -> npt.NDArray[np.float64]:
    """The logarithm of the beta function of half these degrees of freedom and half of each worth."""
    return np.array([lgamma(degrees / 2) + lgamma(w / 2) - lgamma((degrees + w) / 2) for w in _WORTHS])
