"""Change points: the moments at which the level of a series of values changed for good.

The series is cut where that lowers the sum of squares around the means of the pieces most, for all cuts together (least
squares with a penalty for each cut), so that a rise and the fall after it do not hide each other. Of these cuts, those
stay whose two neighbouring pieces differ by Student's t at `SIGNIFICANCE`, divided by the number of places for a cut.
A single value that is far from the others is no level: a piece has `LEAST` values.

B. Jackson et al., An algorithm for optimal partitioning of data on an interval, IEEE Signal Processing Letters 12
(2005); M. Fleming et al., Hunter: using change point detection to hunt for performance regressions, ICPE (2023).
"""

from dataclasses import dataclass
from itertools import pairwise
from math import inf, log, sqrt
from typing import Final

import numpy as np
import numpy.typing as npt

from mqlab.study.statistics import t_quantile

# The share of series without a change in which one is found nevertheless.
SIGNIFICANCE: Final = 0.001
LEAST: Final = 2
# The median of |a - b| of two values of a normal distribution, in standard deviations.
_MEDIAN_DIFFERENCE: Final = 0.9539


@dataclass(frozen=True)
class ChangePoint:
    """The first value of the new level, by its place, and the means of the levels before and after."""

    place: int
    before: float
    after: float


def find_change_points(values: npt.NDArray[np.float64], significance: float = SIGNIFICANCE) -> list[ChangePoint]:
    """Return the change points of the series, in order. A series shorter than two pieces has none."""
    if len(values) < 2 * LEAST:
        return []
    cuts = _best_cuts(values)
    tail = significance / 2 / (len(values) - 2 * LEAST + 1)
    while cuts:
        pieces = np.split(values, cuts)
        excess = [_excess(before, after, tail) for before, after in pairwise(pieces)]
        weakest = int(np.argmin(excess))
        if excess[weakest] > 1:
            break
        del cuts[weakest]
    means = [float(piece.mean()) for piece in np.split(values, cuts)]
    return [ChangePoint(cut, *means[index : index + 2]) for index, cut in enumerate(cuts)]


def _best_cuts(values: npt.NDArray[np.float64]) -> list[int]:
    """The places of the cuts with the least sum of squares and penalties."""
    # Around the mean, so that the squares of large values do not swallow their differences.
    centred = values - values.mean()
    sums, squares = (np.concatenate([[0.0], np.cumsum(column)]) for column in (centred, centred**2))
    noise = float(np.median(np.abs(np.diff(values)))) / _MEDIAN_DIFFERENCE
    penalty = 2 * log(len(values)) * noise**2
    best, previous = np.full(len(values) + 1, inf), np.zeros(len(values) + 1, dtype=np.int64)
    best[0] = -penalty
    for end in range(LEAST, len(values) + 1):
        starts = np.arange(end - LEAST + 1)
        inside = squares[end] - squares[starts] - (sums[end] - sums[starts]) ** 2 / (end - starts)
        totals = best[starts] + inside + penalty
        previous[end] = int(np.argmin(totals))
        best[end] = totals[previous[end]]
    cuts, end = [], int(previous[-1])
    while end:
        cuts.append(end)
        end = int(previous[end])
    return cuts[::-1]


def _excess(before: npt.NDArray[np.float64], after: npt.NDArray[np.float64], tail: float) -> float:
    """Student's t of the two pieces, over its quantile: above 1 they differ."""
    difference = abs(float(after.mean() - before.mean()))
    degrees = len(before) + len(after) - 2
    variance = (float(before.var()) * len(before) + float(after.var()) * len(after)) / degrees
    error = sqrt(variance * (1 / len(before) + 1 / len(after)))
    if error <= 1e-12 * max(abs(float(before.mean())), abs(float(after.mean()))):
        return inf if difference > 0 else 0.0
    return difference / error / t_quantile(degrees, 1 - tail)
