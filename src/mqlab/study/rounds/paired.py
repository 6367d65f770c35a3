"""The random error of a figure that is computed from several measures, by the rounds that their runs share.

Runs that take turns follow one another, and what the machine does at that time changes all of them. So each round gives
the figure one deviation: of a ratio that is its log-ratio less their mean, and whatever changed both sides cancels. The
spread of these deviations is the error (a paired t).

A few rounds know little of their own spread. So it is moderated (study/shared_noise.py) by what is expected of it: from
the noise of all points of each system, less the part that the runs of a round have in common: one correlation for all
pairs of the same kind (Smyth, Michaud and Scott, 2005). docs/decisions/0024-paired-rounds.md: why.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import floor, sqrt
from statistics import fmean
from typing import Final

from mqlab.study.shared_noise import RunNoise, SharedNoise, share
from mqlab.study.statistics import look_quantile, t975

# Fewer common rounds have no spread.
FEWEST_ROUNDS: Final = 2
# With fewer independent rounds, of all pairs of a kind, their correlation may be great by chance. None is assumed then.
FEWEST_OF_KIND: Final = 8
# The runs of two measures: their systems and metrics, and whether they are those of one point.
_PairKind = tuple[tuple[str, str], tuple[str, str], bool]


@dataclass(frozen=True, eq=False)
class MeasuredRuns:
    """The values of a metric at a point on a system, by round. Points with equal `turns` take turns."""

    system: str
    metric: str
    point: tuple[str, str]
    turns: Hashable
    values: Mapping[int, float]
    study: "StudyRounds"

    @property
    def series(self) -> tuple[str, str]:
        return self.system, self.metric

    @cached_property
    def deviations(self) -> dict[int, float]:
        """Those of the runs from their mean, relative to it."""
        mean = fmean(self.values.values())
        return {number: value / mean - 1 for number, value in self.values.items()}

    def common_rounds(self, other: "MeasuredRuns") -> list[int]:
        return [number for number in self.values if number in other.values] if self.turns == other.turns else []

    def is_paired(self, other: "MeasuredRuns") -> bool:
        return len(self.common_rounds(other)) >= FEWEST_ROUNDS

    def covariance(self, other: "MeasuredRuns") -> float:
        """That of the two means, by their common rounds. `degrees`: deviations from a mean are too small."""
        common, ours, theirs = self.common_rounds(other), len(self.values), len(other.values)
        count = len(common)
        total = sum(self.deviations[number] * other.deviations[number] for number in common)
        degrees = count * (1 - 1 / ours - 1 / theirs + count / (ours * theirs))
        return total / degrees * count / (ours * theirs)


class StudyRounds:
    """The runs of a study, for the errors of what is computed from them. `looks`: study/statistics.py."""

    def __init__(self, looks: int) -> None:
        self._looks = looks
        self._runs: dict[tuple[str, str], dict[tuple[str, str], MeasuredRuns]] = {}
        self._shared: dict[tuple[str, str], SharedNoise | None] = {}
        self._correlations: dict[_PairKind, float] = {}

    def add(self, system: str, metric: str, point: tuple[str, str], turns: Hashable, runs: Mapping[int, float]) -> None:
        """Runs without a spread, or with a mean of zero, tell nothing."""
        noise = RunNoise.of([*runs.values()])
        if noise and noise.variance:
            added = MeasuredRuns(system, metric, point, turns, runs, self)
            self._runs.setdefault(added.series, {})[point] = added

    def find(self, system: str, metric: str, point: tuple[str, str]) -> MeasuredRuns | None:
        return self._runs.get((system, metric), {}).get(point)

    def error(self, weights: Mapping[MeasuredRuns, float]) -> tuple[float, int]:
        """The standard error of a figure, and its degrees of freedom; for a t975 that stands for each of the looks.

        `weights`: the change of the figure for a relative change of each mean. All of these are paired.
        """
        pairs = product(weights.items(), weights.items())
        variance = sum(a * b * one.covariance(other) for (one, a), (other, b) in pairs)
        own = RunNoise(max(0.0, variance), min(len(runs.values) for runs in weights) - 1)
        expected = self._expected(weights)
        noise = expected.moderate(own) if expected else own
        degrees = noise.degrees_of_freedom
        return sqrt(noise.variance) * look_quantile(degrees, self._looks) / t975(degrees), degrees

    def _expected(self, weights: Mapping[MeasuredRuns, float]) -> SharedNoise | None:
        """The variance of a figure by the noise of all points; None where too few points tell it."""
        shared = {runs: noise for runs in weights if (noise := self._shared_noise(runs.series)) is not None}
        if len(shared) < len(weights):
            return None
        errors = {runs: weights[runs] * sqrt(noise.variance / len(runs.values)) for runs, noise in shared.items()}
        variance = sum(
            errors[one] * errors[other] * self._correlation_of_means(one, other)
            for one, other in product(shared, shared)
        )
        spread = sum(error**4 / shared[runs].degrees_of_freedom for runs, error in errors.items())
        degrees = floor(sum(error**2 for error in errors.values()) ** 2 / spread)
        totals = {runs.series: noise.total for runs, noise in shared.items()}
        return SharedNoise(max(0.0, variance), degrees, sum(totals.values()))

    def _shared_noise(self, series: tuple[str, str]) -> SharedNoise | None:
        if series not in self._shared:
            noises = [RunNoise.of([*runs.values.values()]) for runs in self._runs[series].values()]
            self._shared[series] = share([noise for noise in noises if noise])
        return self._shared[series]

    def _correlation_of_means(self, one: MeasuredRuns, other: MeasuredRuns) -> float:
        if one is other:
            return 1.0
        common = len(one.common_rounds(other))
        return self.correlation(one, other) * common / sqrt(len(one.values) * len(other.values))

    def correlation(self, one: MeasuredRuns, other: MeasuredRuns) -> float:
        """That of two runs of a round, by all pairs of their kind."""
        first, second = sorted((one.series, other.series))
        kind = first, second, one.point == other.point
        if kind not in self._correlations:
            self._correlations[kind] = self._consensus(*kind)
        return self._correlations[kind]

    def _consensus(self, first: tuple[str, str], second: tuple[str, str], of_one_point: bool) -> float:
        """Over all pairs, each measured by the noise of its points."""
        products, squares, rounds = 0.0, [0.0, 0.0], set()
        for one, other in product(self._runs[first].values(), self._runs[second].values()):
            if one is other or (one.point == other.point) != of_one_point or not one.is_paired(other):
                continue
            common = one.common_rounds(other)
            sides = [self._standardised(runs, common) for runs in (one, other)]
            products += sum(a * b for a, b in zip(*sides, strict=True))
            squares = [square + sum(value**2 for value in side) for square, side in zip(squares, sides, strict=True)]
            rounds |= {(one.turns, number) for number in common}
        independent = len(rounds) - len({turns for turns, _ in rounds})
        if independent < FEWEST_OF_KIND or not all(squares):
            return 0.0
        return products / sqrt(squares[0] * squares[1])

    def _standardised(self, runs: MeasuredRuns, rounds: Sequence[int]) -> list[float]:
        """The deviations of these rounds from their mean, over that of a run by the noise of all points."""
        own, shared = RunNoise.of([*runs.values.values()]), self._shared_noise(runs.series)
        assert own is not None  # of all runs that were added
        deviation = sqrt((shared.moderate(own) if shared else own).variance)
        values = [runs.deviations[number] / deviation for number in rounds]
        mean = fmean(values)
        return [value - mean for value in values]


def paired_groups(runs: Iterable[MeasuredRuns]) -> list[list[MeasuredRuns]]:
    """Groups in which all are paired with all."""
    groups: list[list[MeasuredRuns]] = []
    for one in runs:
        for group in groups:
            if all(one.is_paired(other) for other in group):
                group.append(one)
                break
        else:
            groups.append([one])
    return groups
